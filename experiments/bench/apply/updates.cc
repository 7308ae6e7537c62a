#include "experiments/bench/apply/updates.h"

#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/computed_step_constants.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "proto/experiment.pb.h"
#include "server/policies.h"

namespace psring {
namespace {

// Of any row.
constexpr int64_t kUpdates = std::numeric_limits<int32_t>::max();

// A tensor is a bucket.
BucketPlan BucketsOf(const ApplyCase& row) {
  ParameterLayout layout;
  for (int64_t bucket = 0; bucket < row.buckets; ++bucket) {
    layout.Add(absl::StrCat("tensor", bucket), {row.count});
  }
  return PlanBuckets(layout, row.size_bytes(), row.size_bytes());
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerUpdates>> ServerUpdates::Make(
    const ApplyCase& row, ThreadTeam* team, int64_t max_slot_bytes) {
  auto updates =
      std::unique_ptr<ServerUpdates>(new ServerUpdates(row, team, max_slot_bytes));
  RETURN_IF_ERROR(updates->Initialize());
  return updates;
}

ServerUpdates::ServerUpdates(const ApplyCase& row, ThreadTeam* team,
                             int64_t max_slot_bytes)
    : row_(row),
      team_(team),
      buckets_(BucketsOf(row)),
      slots_(PlanStripedSlots(buckets_, /*servers=*/1, max_slot_bytes)),
      updates_(buckets_.buckets.size()) {
  for (int rank = 0; rank < row_.contributions; ++rank) {
    contributions_.emplace_back(row_.pieces, rank, slots_.slots);
  }
}

absl::Status ServerUpdates::Initialize() {
  ParameterShard::Options options =
      ParameterShard::OptionsFor(buckets_, slots_, /*server=*/0);
  options.workers = row_.contributions;
  options.optimizer = ApplyOptimizer(row_.optimizer);
  options.constants =
      std::make_shared<ComputedStepConstants>(options.optimizer, kUpdates);
  options.time = &time_;
  ParameterServerMode mode;
  mode.mutable_sync();
  ASSIGN_OR_RETURN(auto policy, MakePolicy(mode, row_.contributions));
  shard_ = std::make_unique<ParameterShard>(std::move(options), std::move(policy));
  std::vector<float> values;
  for (const Slot& slot : slots_.slots) {
    values.resize(static_cast<size_t>(slot.range.count));
    for (int64_t i = 0; i < slot.range.count; ++i) {
      values[i] = ParameterAt(slot.range.begin + i);
    }
    RETURN_IF_ERROR(shard_->Initialize(slot.index, std::span<const float>(values)));
  }
  return absl::OkStatus();
}

absl::Status ServerUpdates::ForSlots(
    int64_t bucket, absl::FunctionRef<absl::Status(const Slot& slot)> work) {
  const std::vector<int>& slots = slots_.of_bucket[bucket];
  std::vector<absl::Status> ended(team_->size());
  team_->Run([&](int thread) {
    for (size_t i = thread; i < slots.size(); i += ended.size()) {
      ended[thread].Update(work(slots_.slots[slots[i]]));
    }
  });
  for (const absl::Status& status : ended) RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

absl::Status ServerUpdates::Update(int64_t bucket) {
  const int64_t version = updates_[bucket];
  RETURN_IF_ERROR(
      ForSlots(bucket, [&](const Slot& slot) { return UpdateSlot(slot, version); }));
  ++updates_[bucket];
  return absl::OkStatus();
}

// The last push makes the update.
absl::Status ServerUpdates::UpdateSlot(const Slot& slot, int64_t version) {
  for (int rank = 0; rank < row_.contributions; ++rank) {
    RETURN_IF_ERROR(shard_->Push(
        {.rank = rank, .step = version, .slot = slot.index, .version = version},
        {.gradient = contributions_[rank].Of(slot.index), .owner = nullptr}));
  }
  return absl::OkStatus();
}

absl::StatusOr<WrongElements> ServerUpdates::Check(int64_t bucket) {
  const ApplyReference reference(row_, buckets_.buckets[bucket].range, updates_[bucket]);
  Mutex mutex;
  WrongElements all;
  RETURN_IF_ERROR(ForSlots(bucket, [&](const Slot& slot) -> absl::Status {
    std::optional<absl::StatusOr<PullAnswer>> answer;
    shard_->Pull({.rank = 0, .step = updates_[bucket], .slot = slot.index},
                 [&](absl::StatusOr<PullAnswer> pulled) { answer = std::move(pulled); });
    if (!answer) return absl::InternalError("an update has not been made");
    RETURN_IF_ERROR(answer->status());
    const WrongElements wrong =
        reference.Compare(slot.range.begin, (*answer)->parameters.values);
    MutexLock lock(&mutex);
    if (all.count == 0) all.first = wrong.first;
    all.count += wrong.count;
    return absl::OkStatus();
  }));
  return all;
}

}  // namespace psring
