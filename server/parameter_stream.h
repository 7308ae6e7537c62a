// One worker's stream on a parameter server. Private to parameter_service.
#ifndef PSRING_SERVER_PARAMETER_STREAM_H_
#define PSRING_SERVER_PARAMETER_STREAM_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/grpc_message.h"
#include "common/mutex.h"
#include "grpcpp/grpcpp.h"
#include "proto/parameter_server.grpc.pb.h"
#include "proto/parameter_server.pb.h"
#include "server/parameter_shard.h"

namespace psring {

// What is to happen when an operation on a completion queue is done; its tag is a pointer
// to one. Whoever takes it from the queue calls it once and deletes it.
using QueueEvent = std::function<void(bool ok)>;

// Reads one request after the other, hands it to the shard, and writes the answers one
// after the other. It holds one message that is being read, and at most
// `2 * slots + kSpareRequests` requests that are not answered yet: with that many it
// reads no further, and whatever else the worker sends stays within the network's
// windows. A pull that is parked leaves the shard when its worker goes.
//
// Any thread. Lives as long as an operation is under way.
class ParameterStream : public std::enable_shared_from_this<ParameterStream> {
 public:
  using Service = ParameterService::WithRawMethod_Exchange<ParameterService::Service>;
  using Time = std::chrono::steady_clock::time_point;

  // The same for all streams of a server.
  struct Options {
    std::string job;
    uint64_t fingerprint = 0;
    absl::Duration stall_timeout;
    std::shared_ptr<ParameterShard> shard;
    // Called when the call is over, at most once.
    std::function<void(ParameterStream*)> closed;
  };
  // Options and queue outlive the stream.
  ParameterStream(const Options* options, grpc::ServerCompletionQueue* queue);

  // Waits for a worker's call, once; `called` with false: the server ends.
  void Await(Service* service, QueueEvent called);

  // After a call has come. Who it is, or why it is refused.
  absl::Status TakeHello();
  int rank() const { return hello_.rank(); }
  uint64_t incarnation() const { return hello_.incarnation(); }

  // Begins to read requests.
  void Serve();

  // Takes no more requests, sends the answers that there are, and ends the call with
  // `status`, which is not OK. The first status counts.
  void End(const absl::Status& status);

  // Gives up the pulls whose time is over; returns when the next one's is.
  std::optional<Time> ExpirePulls(Time now);

 private:
  struct ParkedPull {
    PullTicket ticket;  // Not parked() until the shard has said which it is.
    Time deadline;
  };

  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnDone();
  // An error ends the stream; refused requests are answers.
  absl::Status Handle();
  absl::Status Push(const ParameterRequest& request, ReceivedFloats payload);
  // Asks the shard for the parameters for `step`; their answer is the request's.
  void Pull(const ParameterRequest& request, int64_t step);
  void AnswerDone(uint64_t id, const absl::Status& status);
  void AnswerPull(uint64_t id, const absl::StatusOr<PullAnswer>& pulled);
  void AnswerSnapshot(uint64_t id, const absl::StatusOr<SlotSnapshot>& snapshot);
  void Answer(grpc::ByteBuffer message);
  void Write(const std::optional<grpc::ByteBuffer>& message);
  void Cancel(const std::vector<PullTicket>& tickets);

  // The next answer, if it is time to write one: the caller then calls Write, unlocked.
  std::optional<grpc::ByteBuffer> NextAnswerLocked()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Each does what its name says if it is time for it.
  void ReadLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<PullTicket> ParkedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options& options_;
  ParameterShard& shard_;
  grpc::ServerCompletionQueue* const queue_;
  const int64_t max_outstanding_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_;
  WorkerHello hello_;          // Set up before Serve.
  grpc::ByteBuffer incoming_;  // Of the read that is under way, then of its handling.

  Mutex mutex_;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;  // Until the request has been handled.
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  bool all_read_ ABSL_GUARDED_BY(mutex_) = false;    // The worker sends no more.
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;        // Nobody is there to write to.
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);       // OK until ended.
  int64_t outstanding_ ABSL_GUARDED_BY(mutex_) = 0;  // Requests whose answer is unsent.
  std::deque<grpc::ByteBuffer> answers_ ABSL_GUARDED_BY(mutex_);
  // By arrival, so by deadline as well.
  std::map<int64_t, ParkedPull> pulls_ ABSL_GUARDED_BY(mutex_);
  int64_t last_pull_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace psring

#endif  // PSRING_SERVER_PARAMETER_STREAM_H_
