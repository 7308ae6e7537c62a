// One worker's stream on a parameter server. Private to parameter_service.
#ifndef PSRING_SERVER_PARAMETER_STREAM_H_
#define PSRING_SERVER_PARAMETER_STREAM_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/float_pieces.h"
#include "common/mutex.h"
#include "common/wire_type.h"
#include "grpcpp/grpcpp.h"
#include "proto/parameter_server.grpc.pb.h"
#include "proto/parameter_server.pb.h"
#include "server/answer_queue.h"
#include "server/contribution_decoder.h"
#include "server/parameter_shard.h"
#include "server/queue_event.h"

namespace psring {

// Reads one request after the other, hands it to the shard when its turn has come, and
// writes the answers one after the other: of those that wait, the one that the worker's
// next forward needs first (answer_queue.h).
//
// What it holds for a worker is bounded: one message that is being read or waits for its
// turn; at most `2 * slots + kSpareRequests` requests that are not answered yet; and of
// answers, asked for or waiting to be sent, less than a slot more than twice the
// parameters: each exchange may come twice. With more it reads no further, and whatever
// else the worker sends stays within the network's windows. A pull that is parked leaves
// the shard when its worker goes.
//
// Any thread. Lives as long as an operation is under way. But for what gRPC does, and
// for taking messages apart and putting them together, nothing is allocated for a
// request once there have been as many at a time.
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
    // Of the gradients that it is sent.
    WireType wire;
    // Called when a request has come: TakeTurn is to be called, once, by any thread.
    std::function<void(std::shared_ptr<ParameterStream>)> ready;
    // Called when the call is over, at most once; where a worker goes at once, before
    // Serve has been.
    std::function<void(ParameterStream*)> closed;
  };
  // Options and queue outlive the stream.
  ParameterStream(const Options* options, grpc::ServerCompletionQueue* queue);

  // Waits for a worker's call, once; `called` with false: the server ends.
  void Await(Service* service, std::function<void(bool called)> called);

  // After a call has come. Who it is, or why it is refused.
  absl::Status TakeHello();
  int rank() const { return hello_.rank(); }
  uint64_t incarnation() const { return hello_.incarnation(); }

  // Begins to read requests. False: the call is over already.
  bool Serve();

  // Works on the request that has come, and reads on.
  void TakeTurn();

  // Takes no more requests, sends the answers that there are, and ends the call with
  // `status`, which is not OK. The first status counts.
  void End(const absl::Status& status);

  // Gives up the pulls whose time is over; returns when the next one's is.
  std::optional<Time> ExpirePulls(Time now);

 private:
  // What an answer is about.
  struct Asked {
    uint64_t id = 0;
    int slot = 0;
  };
  // A pull that the shard has; the stream lives until it is done.
  struct OpenPull {
    std::shared_ptr<ParameterStream> stream;
    int64_t key = 0;
    Asked asked;
    int64_t bytes = 0;  // Of the answer's payload.
    PullTicket ticket;  // Not parked() until the shard has said which it is.
    Time deadline;
  };
  struct UnsentAnswer {
    ParameterAnswer header;
    Bytes payload;
    std::shared_ptr<const void> owner;  // Keeps it.
  };

  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnDone();
  // An error ends the stream; refused requests are answers.
  absl::Status Handle();
  absl::Status Push(const ParameterRequest& request, Contribution contribution);
  // Asks the shard for the parameters for `step`; their answer is the request's.
  void Pull(const ParameterRequest& request, int64_t step);
  void OnPulled(OpenPull* pull, const absl::StatusOr<PullAnswer>& pulled);
  void AnswerDone(const Asked& asked, const absl::Status& status);
  void AnswerPull(const Asked& asked, const absl::StatusOr<PullAnswer>& pulled);
  void AnswerSnapshot(const Asked& asked, const absl::StatusOr<SlotSnapshot>& snapshot);
  void Answer(const Asked& asked, UnsentAnswer answer);
  void Write(std::optional<UnsentAnswer> answer);
  void Cancel(const std::vector<PullTicket>& tickets);

  // The next answer, if it is time to write one: the caller then calls Write, unlocked.
  std::optional<UnsentAnswer> NextAnswerLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Each does what its name says if it is time for it.
  void ReadLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FinishLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<PullTicket> ParkedLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options& options_;
  ParameterShard& shard_;
  grpc::ServerCompletionQueue* const queue_;
  const int64_t max_outstanding_;
  const ContributionDecoder decoder_;
  grpc::ServerContext context_;
  grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer> stream_;
  WorkerHello hello_;          // Set up before Serve.
  grpc::ByteBuffer incoming_;  // Of the read that is under way, then of its handling.
  OwnedEvent<ParameterStream> read_{this, &ParameterStream::OnRead};
  OwnedEvent<ParameterStream> written_{this, &ParameterStream::OnWritten};

  Mutex mutex_;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;  // Until the request has been handled.
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  bool all_read_ ABSL_GUARDED_BY(mutex_) = false;    // The worker sends no more.
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;        // Nobody is there to write to.
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);       // OK until ended.
  int64_t outstanding_ ABSL_GUARDED_BY(mutex_) = 0;  // Requests whose answer is unsent.
  AnswerQueue<UnsentAnswer> answers_ ABSL_GUARDED_BY(mutex_);
  // Payload of these and of the one that is being written.
  int64_t unsent_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t asked_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // What open pulls will bring.
  int64_t writing_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::pmr::unsynchronized_pool_resource pull_memory_ ABSL_GUARDED_BY(mutex_);
  // By arrival, so by deadline as well.
  std::pmr::map<int64_t, OpenPull> pulls_ ABSL_GUARDED_BY(mutex_){&pull_memory_};
  int64_t last_pull_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace psring

#endif  // PSRING_SERVER_PARAMETER_STREAM_H_
