// A process's side of the coordinator.
#ifndef PSRING_COMMON_COORDINATOR_CLIENT_H_
#define PSRING_COMMON_COORDINATOR_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/abort_source.h"
#include "common/clock_offset.h"
#include "common/step_constants.h"
#include "common/time_source.h"
#include "proto/coordinator.pb.h"

namespace psring {

// A membership in one job, from Join until Leave or destruction. Any thread.
class CoordinatorClient {
 public:
  struct Options {
    std::string address;  // HOST:PORT of the coordinator.
    std::string job;
    Member member;
    // For reaching the coordinator and for each later rendezvous with other members.
    absl::Duration rendezvous_timeout = absl::Seconds(60);
    // Is shown each batch of records before it is sent, in the thread that sends.
    std::function<void(const RecordBatch& batch)> on_records = nullptr;
  };

  // DeadlineExceeded (exit code 4): no coordinator answered in time.
  // FailedPrecondition: it refuses this process and says why.
  static absl::StatusOr<std::unique_ptr<CoordinatorClient>> Join(const Options& options);
  // Without Leave before, the coordinator takes this process for lost.
  virtual ~CoordinatorClient() = default;

  virtual const JobSpec& spec() const = 0;
  // Random; differs between a process and its replacement.
  virtual uint64_t incarnation() const = 0;

  virtual absl::Status Put(const std::string& key, const std::string& value) = 0;
  // Block for at most the rendezvous timeout; errors as in Coordinator.
  virtual absl::StatusOr<std::string> Get(const std::string& key) = 0;
  virtual absl::Status Barrier(const std::string& name) = 0;
  // The same without a limit, for the end of work of unknown length: it ends when all
  // have arrived or the job is aborted, as it is when a member or the coordinator dies.
  virtual absl::Status BarrierWithoutDeadline(const std::string& name) = 0;

  // What heartbeats say of this process from now on; null: nothing. Called in a thread
  // of the client, about once a second, and not any more when this has returned.
  virtual void SetActivity(std::function<Activity()> activity) = 0;

  // The optimizer's constants of so many updates from `first_update` on, as in
  // Coordinator: what FetchedStepConstants fetches. Blocks for 10 s at most.
  virtual absl::StatusOr<std::vector<StepConstants>> GetSchedule(int64_t first_update,
                                                                 int64_t count) = 0;

  // How `clock` compares with the coordinator's. Asks a few times, one after the other,
  // and takes as long as that: some milliseconds.
  virtual absl::StatusOr<ClockOffset> CompareClock(const TimeSource& clock) = 0;

  // Calls `add` with the batch that is sent next, to which it appends and nothing else.
  // Cheap: holds a lock that nobody holds for long, and a batch's memory is used again.
  // Batches are sent as in common/record_queue.h.
  virtual void Report(absl::FunctionRef<void(RecordBatch& batch)> add) = 0;

  // Who is told of orders about checkpoints from now on, of the latest one at once; null:
  // nobody. Called in a thread of the client, which it does not hold up, and not any more
  // when this has returned.
  virtual void SetOrders(std::function<void(const CheckpointOrder&)> handler) = 0;
  // Does not wait. Replies arrive in their order, before what Leave says.
  virtual void Reply(const CheckpointReply& reply) = 0;

  // The last call, once: sends what has been reported, then says goodbye with this
  // process's outcome, and returns once the coordinator has taken all of it in. The
  // outcome that everyone reports is the job's first error, which this returns where
  // there is one.
  virtual absl::Status Leave(const absl::Status& outcome) = 0;

  // Aborts when the coordinator says so, is lost, or has not been heard of for as long
  // as makes a member dead (common/liveness.h).
  virtual AbortSource& aborts() = 0;
};

}  // namespace psring

#endif  // PSRING_COMMON_COORDINATOR_CLIENT_H_
