// Which exchange a job's arm asks for: the only place where the modes part on a worker.
#ifndef PSRING_WORKER_MAIN_EXCHANGE_FACTORY_H_
#define PSRING_WORKER_MAIN_EXCHANGE_FACTORY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/coordinator_client.h"
#include "common/device.h"
#include "common/gradient_exchange.h"
#include "common/job_plan.h"
#include "common/member_process.h"
#include "common/memory_gauge.h"
#include "common/state_slice.h"
#include "common/time_source.h"
#include "proto/coordinator.pb.h"
#include "proto/record.pb.h"
#include "ring/shared_memory_segment.h"

namespace psring {

// A worker's gradients, where its exchange reaches them best.
struct GradientMemory {
  DeviceBuffer buffer;
  // That the buffer lies in; null where workers share no memory.
  std::shared_ptr<SharedMemorySegment> segment;
};

// Zero. Where workers share memory, blocks until all have come. Errors: as
// Device::Allocate's and SharedMemorySegment::Open's.
absl::StatusOr<GradientMemory> AllocateGradients(const Endpoint& endpoint, int rank,
                                                 const JobPlan& plan, const JobSpec& spec,
                                                 Device* device);

// Fills in the parameters as they were after `step` steps of all workers (as many as the
// plan has), and returns what else is known of them: the fields of EvaluationRecord that
// are not about the evaluation. Blocks; errors as of the exchange.
using SnapshotReader = std::function<absl::StatusOr<EvaluationRecord>(
    int64_t step, std::span<float> parameters)>;

struct WorkerExchange {
  std::unique_ptr<GradientExchange> exchange;
  // How many steps this worker makes; none where the exchange says which is the last.
  std::optional<int64_t> steps = std::nullopt;
  // Where set, others keep the snapshots of the run, and this fetches one when training
  // has ended everywhere; by the training thread, while the exchange lives.
  SnapshotReader read_snapshot = nullptr;
  // The optimizer's state where this worker has it, to be restored before Bind; and the
  // part of it, which no other has to, that this one writes into checkpoints. Both are
  // empty where others own the parameters.
  std::vector<StateSlice> state = {};
  std::vector<StateSlice> checkpointed = {};
};

// Finds this worker's peers through the coordinator and connects to them. `gradients` are
// those that will be bound; `time` and `client` outlive the exchange, whose buffers
// `memory` counts. Errors: kDeadlineExceeded, a peer did not come in time; otherwise as
// the exchanges'.
absl::StatusOr<WorkerExchange> MakeExchange(const Endpoint& endpoint, int rank,
                                            const JobPlan& plan,
                                            const GradientMemory& gradients,
                                            const TimeSource* time,
                                            CoordinatorClient& client,
                                            MemoryGauges* memory);

}  // namespace psring

#endif  // PSRING_WORKER_MAIN_EXCHANGE_FACTORY_H_
