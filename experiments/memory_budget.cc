#include "experiments/memory_budget.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/memory_gauge.h"
#include "common/optimizer.h"
#include "common/partition.h"
#include "common/slot_plan.h"
#include "common/wire_type.h"
#include "experiments/arm_mode.h"

namespace psring {
namespace {

constexpr int64_t kFloat = sizeof(float);

// Elements whose optimizer state a worker keeps.
int64_t OptimizedBy(int rank, const JobSpec& spec, const JobPlan& plan) {
  if (spec.arm().has_parameter_server()) return 0;
  if (!spec.arm().ring().sharded_optimizer()) return plan.layout.count();
  const int position = RingOrderOf(spec).PositionOf(rank);
  int64_t elements = 0;
  for (const Bucket& bucket : plan.buckets.buckets) {
    elements += PartitionRange(bucket.range.count, spec.workers(), position).count;
  }
  return elements;
}

// For gradients as they are on the wire, where that is not fp32: to servers each slot's
// bytes, and with top_k what was left out and an index for each element of a server's
// largest slot; on a ring those of the largest bucket.
int64_t WireBuffers(const JobSpec& spec, const JobPlan& plan) {
  const WireType wire = spec.arm().wire();
  int64_t bytes = 0;
  if (spec.arm().has_ring()) {
    for (const Bucket& bucket : plan.buckets.buckets) {
      bytes = std::max(bytes, wire.EncodedBytes(bucket.range.count));
    }
    return bytes;
  }
  const bool keeps = wire.kind() == Wire::kTopK;
  for (const std::vector<int>& slots : plan.slots.of_server) {
    int64_t largest = 0;
    for (const int slot : slots) {
      const int64_t count = plan.slots.slots[slot].range.count;
      bytes += wire.EncodedBytes(count) + (keeps ? count * kFloat : 0);
      largest = std::max(largest, count);
    }
    if (keeps) bytes += largest * int64_t{sizeof(uint32_t)};
  }
  return bytes;
}

ProcessBudget WorkerBudget(int rank, const JobSpec& spec, const JobPlan& plan) {
  const int64_t all = plan.layout.bytes();
  const Training& training = spec.experiment().training();
  const int64_t state =
      OptimizerStateBytesPerElement(training.optimizer()) * OptimizedBy(rank, spec, plan);
  ProcessBudget budget{
      .name = absl::StrCat("worker ", rank),
      .role = "worker",
      .purposes = {{.purpose = memory_purpose::kParameters, .bytes = all},
                   {.purpose = memory_purpose::kGradients, .bytes = all},
                   {.purpose = memory_purpose::kOptimizerState, .bytes = state}}};
  if (training.micro_batches() > 1) {
    budget.purposes.push_back(
        {.purpose = memory_purpose::kAccumulatedGradients, .bytes = all});
  }
  if (!WireType(spec.arm().wire()).is_fp32()) {
    budget.purposes.push_back(
        {.purpose = memory_purpose::kWireBuffers, .bytes = WireBuffers(spec, plan)});
  }
  return budget;
}

ProcessBudget ServerBudget(int server, const JobSpec& spec, const JobPlan& plan) {
  const int64_t elements = ServerElements(plan.slots, server);
  const int64_t own = elements * kFloat;
  const int64_t state =
      elements * OptimizerStateBytesPerElement(spec.experiment().training().optimizer());
  const int64_t delay = PromiseOf(spec)->older_versions;
  const int64_t contributions =
      spec.arm().parameter_server().has_fixed_delay() ? delay + 1 : spec.workers();
  const int64_t read = InLockstep(spec) ? 1 : 2 * spec.workers();
  return {.name = absl::StrCat("server ", server),
          .role = "server",
          .purposes = {{.purpose = memory_purpose::kParameters, .bytes = own},
                       {.purpose = memory_purpose::kOptimizerState, .bytes = state},
                       {.purpose = memory_purpose::kContributions,
                        .bytes = contributions * own,
                        .exact = false},
                       {.purpose = memory_purpose::kOlderVersions,
                        .bytes = (SnapshotCount(spec) + delay + read) * own,
                        .exact = false}}};
}

}  // namespace

int64_t SnapshotCount(const JobSpec& spec) {
  const int64_t interval = spec.experiment().training().evaluation_interval();
  return interval == 0 ? 1 : (spec.steps() + interval - 1) / interval;
}

std::vector<ProcessBudget> MemoryBudget(const JobSpec& spec, const JobPlan& plan) {
  std::vector<ProcessBudget> budgets;
  for (int rank = 0; rank < spec.workers(); ++rank) {
    budgets.push_back(WorkerBudget(rank, spec, plan));
  }
  for (int server = 0; server < spec.servers(); ++server) {
    budgets.push_back(ServerBudget(server, spec, plan));
  }
  return budgets;
}

}  // namespace psring
