// Step constants from another process, in blocks fetched ahead of their use.
#ifndef PSRING_COMMON_FETCHED_STEP_CONSTANTS_H_
#define PSRING_COMMON_FETCHED_STEP_CONSTANTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "common/step_constants.h"

namespace psring {

// A thread of its own fetches the first block from the start, and from then on the block
// after the one in use, so that At waits only where a fetch takes longer than a whole
// block of steps. Keeps the block in use, the one before it, for repeated updates, and
// what has been fetched beyond.
class FetchedStepConstants final : public StepConstantsSource {
 public:
  // Returns the constants of [first_step, first_step + count). Called by the thread, and
  // returns within a time of its own: it limits how long At and the destructor block.
  using Fetch = std::function<absl::StatusOr<std::vector<StepConstants>>(
      int64_t first_step, int64_t count)>;

  // 12 kB on the wire.
  static constexpr int64_t kBlockSteps = 1024;

  // Of a run of `steps` steps.
  FetchedStepConstants(int64_t steps, Fetch fetch, int64_t block_steps = kBlockSteps);
  // No call is running. Waits for a fetch that is.
  ~FetchedStepConstants() override;
  FetchedStepConstants(const FetchedStepConstants&) = delete;
  FetchedStepConstants& operator=(const FetchedStepConstants&) = delete;

  // A failed fetch, ahead of its use or not, ends the source with the fetch's error.
  absl::StatusOr<StepConstants> At(int64_t step) override;

 private:
  void FetchBlocks();  // The thread.
  void WantLocked(int64_t block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t steps_;
  const int64_t block_steps_;
  const Fetch fetch_;

  Mutex mutex_;
  CondVar wanted_or_stopped_;
  CondVar fetched_;
  // Blocks by index. A wanted one stays in the set until it has been fetched.
  std::set<int64_t> wanted_ ABSL_GUARDED_BY(mutex_) = {0};
  std::map<int64_t, std::vector<StepConstants>> blocks_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // OK until a fetch has failed.
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace psring

#endif  // PSRING_COMMON_FETCHED_STEP_CONSTANTS_H_
