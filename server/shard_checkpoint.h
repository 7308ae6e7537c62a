// A server's part of checkpoints.
#ifndef PSRING_SERVER_SHARD_CHECKPOINT_H_
#define PSRING_SERVER_SHARD_CHECKPOINT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/checkpoint.h"
#include "common/mutex.h"
#include "proto/coordinator.pb.h"
#include "server/parameter_shard.h"

namespace psring {

// Where a restored job's shards start.
ShardStart StartOf(const Restored& restored);

// Reads the optimizer's state of every slot; the parameters come from worker 0, as they
// do in every job. Before the shard is served. DataLoss: the checkpoint is damaged;
// FailedPrecondition: it is of another optimizer.
absl::Status RestoreState(const Checkpoint& checkpoint, ParameterShard* shard);

// Writes every slot, while all workers hold (common/checkpoint_rounds.h), so that nothing
// changes. Errors as WriteCheckpointPart's.
absl::StatusOr<CheckpointPart> WriteShardPart(
    const CheckpointOrder& order, int server, ParameterShard* shard,
    absl::FunctionRef<void(int64_t bytes)> wrote);

// Obeys the orders to save, in a thread of its own: who brings them must not be held up,
// and the disk may be slow. A failure goes to `fail`, and is the last.
class ShardSaver {
 public:
  ShardSaver(int server, std::shared_ptr<ParameterShard> shard,
             std::function<void(const CheckpointReply&)> reply,
             std::function<void(const absl::Status&)> fail);
  // Waits for a part that is being written.
  ~ShardSaver();
  ShardSaver(const ShardSaver&) = delete;
  ShardSaver& operator=(const ShardSaver&) = delete;

  // From any thread; does not block.
  void Order(const CheckpointOrder& order);

  // Grows while a part is being written.
  int64_t bytes() const { return bytes_; }
  bool saving() const { return saving_; }

 private:
  void Run();

  const int server_;
  const std::shared_ptr<ParameterShard> shard_;
  const std::function<void(const CheckpointReply&)> reply_;
  const std::function<void(const absl::Status&)> fail_;
  std::atomic<int64_t> bytes_{0};
  std::atomic<bool> saving_{false};

  Mutex mutex_;
  CondVar changed_;
  std::optional<CheckpointOrder> order_ ABSL_GUARDED_BY(mutex_);  // Not obeyed yet.
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace psring

#endif  // PSRING_SERVER_SHARD_CHECKPOINT_H_
