#include "server/parameter_shard.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "server/shard_slot.h"

namespace psring {
namespace {

// An error names no more slots than fit into a line.
constexpr size_t kSlotsInError = 16;

}  // namespace

ParameterShard::Options ParameterShard::OptionsFor(const BucketPlan& buckets,
                                                   const SlotPlan& slots, int server) {
  Options options;
  for (const int slot : slots.of_server[server]) {
    options.slots.push_back(slots.slots[slot]);
  }
  for (const Bucket& bucket : buckets.buckets) {
    options.bucket_ranges.push_back(bucket.range);
  }
  return options;
}

ParameterShard::ParameterShard(Options options,
                               std::unique_ptr<const ConsistencyPolicy> policy)
    : workers_(options.workers),
      policy_(std::move(policy)),
      traffic_(options.local_worker) {
  CHECK_GT(workers_, 0);
  CHECK(options.constants != nullptr);
  CHECK(options.time != nullptr);
  for (const Slot& slot : options.slots) {
    slots_[slot.index] =
        std::make_unique<ShardSlot>(slot, options, policy_.get(), &traffic_);
    const int64_t bytes = slot.range.count * int64_t{sizeof(float)};
    largest_slot_bytes_ = std::max(largest_slot_bytes_, bytes);
    bytes_ += bytes;
  }
}

ParameterShard::~ParameterShard() {
  Abort(absl::CancelledError("the parameter shard has ended"));
}

absl::Status ParameterShard::Initialize(int slot, const FloatPieces& parameters) {
  ASSIGN_OR_RETURN(ShardSlot* const state, Find(slot, /*rank=*/0, /*step=*/0));
  return state->Initialize(parameters);
}

absl::Status ParameterShard::Push(const PushInfo& push, Contribution contribution) {
  ASSIGN_OR_RETURN(ShardSlot* const state, Find(push.slot, push.rank, push.step));
  return state->Push(push, std::move(contribution));
}

PullTicket ParameterShard::Pull(const PullInfo& pull, PullDone done) {
  const absl::StatusOr<ShardSlot*> state = Find(pull.slot, pull.rank, pull.step);
  if (state.ok()) return (*state)->Pull(pull, std::move(done));
  done(state.status());
  return {.slot = pull.slot, .id = 0};
}

void ParameterShard::CancelPull(const PullTicket& ticket) {
  if (const auto found = slots_.find(ticket.slot); found != slots_.end()) {
    found->second->CancelPull(ticket.id);
  }
}

absl::Status ParameterShard::Leave(int rank) {
  if (rank < 0 || rank >= workers_) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, " leaves a shard of ", workers_, " workers"));
  }
  for (const auto& [index, slot] : slots_) RETURN_IF_ERROR(slot->Leave(rank));
  return absl::OkStatus();
}

absl::StatusOr<SlotSnapshot> ParameterShard::Snapshot(const PullInfo& pull) {
  ASSIGN_OR_RETURN(const ShardSlot* const found, Find(pull.slot, pull.rank, pull.step));
  absl::StatusOr<SlotSnapshot> snapshot = found->Snapshot(pull.step);
  if (snapshot.ok()) {
    traffic_.CountOut(
        TrafficKind::kSnapshot,
        static_cast<int64_t>(snapshot->parameters.values.size() * sizeof(float)),
        pull.rank);
  }
  return snapshot;
}

std::vector<SlotState> ParameterShard::States() {
  std::vector<SlotState> states;
  for (const auto& [index, slot] : slots_) states.push_back(slot->State());
  return states;
}

void ParameterShard::Abort(const absl::Status& reason) {
  CHECK(!reason.ok());
  absl::Status first;
  {
    MutexLock lock(&mutex_);
    if (abort_reason_.ok()) abort_reason_ = reason;
    first = abort_reason_;
  }
  for (const auto& [index, state] : slots_) state->Abort(first);
}

std::string ParameterShard::Awaited() const {
  for (const auto& [index, state] : slots_) {
    if (std::string awaited = state->Awaited(); !awaited.empty()) return awaited;
  }
  return "";
}

int64_t ParameterShard::first_version() const {
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const auto& [index, state] : slots_) first = std::min(first, state->version());
  return slots_.empty() ? 0 : first;
}

std::optional<Range> ParameterShard::RangeOf(int slot) const {
  const auto found = slots_.find(slot);
  if (found == slots_.end()) return std::nullopt;
  return found->second->range();
}

int64_t ParameterShard::parked_pulls() const {
  int64_t count = 0;
  for (const auto& [index, state] : slots_) count += state->parked_pulls();
  return count;
}

absl::StatusOr<ShardSlot*> ParameterShard::Find(int slot, int rank, int64_t step) const {
  const auto found = slots_.find(slot);
  if (found == slots_.end()) {
    std::vector<int> here;
    for (const auto& [index, state] : slots_) {
      if (here.size() < kSlotsInError) here.push_back(index);
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", rank, " asks for slot ", slot,
        ", the slots here are: ", here.empty() ? "none" : absl::StrJoin(here, ", "),
        here.size() < slots_.size() ? ", ..." : ""));
  }
  if (rank < 0 || rank >= workers_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", rank, " asks for slot ", slot, ", which serves ", workers_, " workers"));
  }
  if (step < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", rank, " names step ", step, " for slot ", slot, ", steps start at 0"));
  }
  return found->second.get();
}

}  // namespace psring
