// A parameter server without its network, which updates one bucket after the other.
#ifndef PSRING_EXPERIMENTS_BENCH_APPLY_UPDATES_H_
#define PSRING_EXPERIMENTS_BENCH_APPLY_UPDATES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/layout.h"
#include "common/slot_plan.h"
#include "common/time_source.h"
#include "experiments/bench/apply/inputs.h"
#include "experiments/bench/apply/plan.h"
#include "experiments/bench/apply/reference.h"
#include "experiments/bench/apply/thread_team.h"
#include "server/parameter_shard.h"

namespace psring {

// The shard of a server with the row's model, in `sync` in the ring's order, with slots
// as servers have them. Contributions lie ready in memory and are pushed by the shard's
// own Push, as the service does when a message has come. The team's threads take a slot
// each, as a server's do. One caller.
class ServerUpdates {
 public:
  // Slots are at most `max_slot_bytes` long. The team outlives what is returned.
  static absl::StatusOr<std::unique_ptr<ServerUpdates>> Make(
      const ApplyCase& row, ThreadTeam* team, int64_t max_slot_bytes = kMaxSlotBytes);

  int64_t buckets() const { return static_cast<int64_t>(buckets_.buckets.size()); }

  // Makes the next version of each of the bucket's slots; what is wrong, where the shard
  // says so.
  absl::Status Update(int64_t bucket);

  // Compares the bucket's parameters after all its updates with the reference.
  absl::StatusOr<WrongElements> Check(int64_t bucket);

 private:
  ServerUpdates(const ApplyCase& row, ThreadTeam* team, int64_t max_slot_bytes);

  // Calls `work` for each slot of the bucket, and returns the first error.
  absl::Status ForSlots(int64_t bucket,
                        absl::FunctionRef<absl::Status(const Slot& slot)> work);
  absl::Status UpdateSlot(const Slot& slot, int64_t version);
  absl::Status Initialize();

  const ApplyCase row_;
  ThreadTeam* const team_;
  const BucketPlan buckets_;
  const SlotPlan slots_;
  const RealTime time_;
  std::vector<RankContributions> contributions_;  // By rank.
  std::vector<int64_t> updates_;                  // Of each bucket, so far.
  std::unique_ptr<ParameterShard> shard_;
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_APPLY_UPDATES_H_
