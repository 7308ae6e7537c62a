#include "server/shard_checkpoint.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace psring {

ShardStart StartOf(const Restored& restored) {
  return {.version = restored.version(),
          .made = {restored.next_steps().begin(), restored.next_steps().end()}};
}

absl::Status RestoreState(const Checkpoint& checkpoint, ParameterShard* shard) {
  for (const SlotState& slot : shard->States()) {
    const auto arrays = static_cast<int>(slot.optimizer.size());
    if (arrays != checkpoint.state_arrays()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the checkpoint has ", checkpoint.state_arrays(),
          " floats of optimizer state for a parameter, this job's optimizer ", arrays));
    }
    for (int array = 0; array < arrays; ++array) {
      RETURN_IF_ERROR(
          checkpoint.ReadState(array, slot.range.begin, slot.optimizer[array]));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<CheckpointPart> WriteShardPart(
    const CheckpointOrder& order, int server, ParameterShard* shard,
    absl::FunctionRef<void(int64_t bytes)> wrote) {
  // They keep the parameters, which nobody changes, from being copied or let go of.
  const std::vector<SlotState> slots = shard->States();
  std::vector<CheckpointedSlice> slices;
  for (const SlotState& slot : slots) {
    CheckpointedSlice& slice = slices.emplace_back();
    slice.range = slot.range;
    slice.version = slot.parameters.version;
    slice.parameters = slot.parameters.values;
    slice.state.assign(slot.optimizer.begin(), slot.optimizer.end());
  }
  return WriteCheckpointPart(order.folder(), absl::StrCat("server ", server),
                             order.step(), slices, wrote);
}

ShardSaver::ShardSaver(int server, std::shared_ptr<ParameterShard> shard,
                       std::function<void(const CheckpointReply&)> reply,
                       std::function<void(const absl::Status&)> fail)
    : server_(server),
      shard_(std::move(shard)),
      reply_(std::move(reply)),
      fail_(std::move(fail)),
      thread_([this] { Run(); }) {}

ShardSaver::~ShardSaver() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void ShardSaver::Order(const CheckpointOrder& order) {
  if (order.kind() != CheckpointOrder::SAVE) return;
  MutexLock lock(&mutex_);
  order_ = order;
  changed_.NotifyAll();
}

void ShardSaver::Run() {
  int64_t last_round = 0;  // Repeating an order does nothing.
  while (true) {
    CheckpointOrder order;
    {
      MutexLock lock(&mutex_);
      // Ends with the process's work, whose waits have their own ends.
      while (!order_ && !stop_) changed_.Wait(&mutex_);
      if (stop_) return;
      order = *std::exchange(order_, std::nullopt);
    }
    if (order.round() <= last_round) continue;
    last_round = order.round();
    saving_ = true;
    const absl::StatusOr<CheckpointPart> part = WriteShardPart(
        order, server_, shard_.get(), [this](int64_t bytes) { bytes_ += bytes; });
    saving_ = false;
    if (!part.ok()) return fail_(part.status());
    CheckpointReply saved;
    saved.set_kind(CheckpointReply::SAVED);
    saved.set_round(order.round());
    *saved.mutable_file() = *part;
    reply_(saved);
  }
}

}  // namespace psring
