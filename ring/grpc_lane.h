// One stream of bytes each way between two ranks, as a gRPC call. Private to
// grpc_transport.
#ifndef PSRING_RING_GRPC_LANE_H_
#define PSRING_RING_GRPC_LANE_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/mutex.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "ring/tcp_handshake.h"

namespace psring {

// The call is a stream of raw messages both ways, whose boundaries mean nothing. The
// caller opens it with its Handshake as metadata, and the listener answers with its own.
//
// Any thread, unless it says otherwise: one thread, the user's, sends and receives.
// Events of the completion queue are any other thread's. Lives as long as an operation is
// under way.
class GrpcLane : public std::enable_shared_from_this<GrpcLane> {
 public:
  // What is to happen when an operation on a completion queue is done; its tag is a
  // pointer to one. Whoever takes it from the queue calls it once and deletes it.
  using Event = std::function<void(bool ok)>;
  // The state of several lanes, and where to wait for changes of any.
  struct Monitor {
    Mutex mutex;
    CondVar changed;
    // No operation may be started any more: the queue ends.
    bool closing ABSL_GUARDED_BY(mutex) = false;
  };

  // Monitor and queue outlive the lane.
  GrpcLane(Monitor* monitor, grpc::CompletionQueue* queue)
      : monitor_(monitor), queue_(queue) {}

  // --- As the caller.
  void Call(std::shared_ptr<grpc::Channel> channel, const Handshake& handshake);

  // --- As the listener: waits for a call, once (`called` with false: there is none).
  // Then one of the others.
  void Await(grpc::AsyncGenericService* service, grpc::ServerCompletionQueue* queue,
             Event called);
  // What the caller said of itself; none: it is no rank.
  std::optional<Handshake> TheirHandshake() const;
  void Accept(const Handshake& handshake);
  void Refuse(const absl::Status& reason);

  // --- Then. Those that end in Locked are called with the monitor's mutex held.
  bool open_locked() const { return open_; }
  // Of a caller: what the listener answered.
  const std::optional<Handshake>& answer_locked() const { return answer_; }
  // The call is over, and with what; no operation is under way any more.
  bool over_locked() const { return over_; }
  const grpc::Status& status_locked() const { return status_; }
  // Nothing more will be received but what has been already.
  bool ended_locked() const { return ended_; }
  bool can_send_locked() const { return open_ && !ended_ && unsent_.empty(); }
  bool can_receive_locked() const { return !current_.empty() || !received_.empty(); }

  // Takes the message, to be sent when those before it have been. The user's, where
  // can_send_locked; or short ones of any thread at any time.
  void Send(grpc::ByteBuffer message);
  // The user's: fills a part of `buffer` from one message, and says whether that is used
  // up. 0 bytes: there is none.
  struct Received {
    size_t bytes = 0;
    bool message_done = false;
  };
  Received Receive(std::span<std::byte> buffer);

  // Ends this side's stream once everything has been sent, and drops what is received from
  // now on; ends the call when the other side has done so too or cannot be heard any more.
  void Leave();
  // Ends the call at once.
  void Cancel();

 private:
  using Client = grpc::GenericClientAsyncReaderWriter;
  using Server = grpc::GenericServerAsyncReaderWriter;

  // An event that keeps the lane.
  template <typename Method>
  Event* Then(Method method) {
    return new Event(
        [self = shared_from_this(), method](bool ok) { ((*self).*method)(ok); });
  }

  void OnStarted(bool ok);
  void OnAnswered(bool ok);
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnHalfClosed(bool ok);
  void OnFinished(bool ok);

  // Each does what its name says if it is time for it.
  void ReadLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex);
  void EndLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex);
  // The next message, if it is time to write one: the caller then calls Write, unlocked.
  std::optional<grpc::ByteBuffer> NextUnsentLocked()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(monitor_->mutex);
  void Write(const std::optional<grpc::ByteBuffer>& message);

  Monitor* const monitor_;
  grpc::CompletionQueue* const queue_;

  // Of a caller or of a listener. Set up before any event.
  std::unique_ptr<grpc::ClientContext> client_context_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<grpc::GenericServerContext> server_context_;
  std::unique_ptr<Server> server_;

  grpc::ByteBuffer incoming_;  // Of the read that is under way.
  grpc::Status status_;        // Of the finish that is under way.

  // The user's: what is left of the message that is being received, last slice first.
  std::vector<grpc::Slice> current_;
  size_t offset_ = 0;  // In the last of these.

  // Guarded by the monitor's mutex.
  bool open_ = false;
  std::optional<Handshake> answer_;
  bool reading_ = false;
  bool writing_ = false;
  bool leaving_ = false;
  bool half_closing_ = false;
  bool half_closed_ = false;
  bool ended_ = false;
  bool finishing_ = false;
  bool over_ = false;
  std::deque<grpc::ByteBuffer> received_;
  std::deque<grpc::ByteBuffer> unsent_;
};

}  // namespace psring

#endif  // PSRING_RING_GRPC_LANE_H_
