#include "common/fetched_step_constants.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace psring {

FetchedStepConstants::FetchedStepConstants(int64_t steps, Fetch fetch,
                                           int64_t block_steps)
    : steps_(steps), block_steps_(block_steps), fetch_(std::move(fetch)) {
  CHECK_GT(steps_, 0);
  CHECK_GT(block_steps_, 0);
  thread_ = std::thread([this] { FetchBlocks(); });
}

FetchedStepConstants::~FetchedStepConstants() {
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    wanted_or_stopped_.NotifyOne();
  }
  thread_.join();
}

absl::StatusOr<StepConstants> FetchedStepConstants::At(int64_t step) {
  if (step < 0 || step >= steps_) {
    return absl::OutOfRangeError(
        absl::StrCat("step ", step, " of a run of ", steps_, " steps"));
  }
  const int64_t block = step / block_steps_;
  MutexLock lock(&mutex_);
  while (status_.ok() && !blocks_.contains(block)) {
    WantLocked(block);
    fetched_.Wait(&mutex_);  // The fetch has an end, and either outcome notifies.
  }
  if (!status_.ok()) return status_;
  const StepConstants constants = blocks_.at(block)[step % block_steps_];
  if ((block + 1) * block_steps_ < steps_) WantLocked(block + 1);
  blocks_.erase(blocks_.begin(), blocks_.lower_bound(block - 1));
  return constants;
}

void FetchedStepConstants::WantLocked(int64_t block) {
  if (!blocks_.contains(block) && wanted_.insert(block).second) {
    wanted_or_stopped_.NotifyOne();
  }
}

void FetchedStepConstants::FetchBlocks() {
  for (;;) {
    int64_t block = 0;
    {
      MutexLock lock(&mutex_);
      while (!stopped_ && wanted_.empty()) wanted_or_stopped_.Wait(&mutex_);
      if (stopped_) return;
      block = *wanted_.begin();  // The lowest: somebody may be waiting for it.
    }
    const int64_t first = block * block_steps_;
    const int64_t count = std::min(block_steps_, steps_ - first);
    absl::StatusOr<std::vector<StepConstants>> constants = fetch_(first, count);
    if (constants.ok() && static_cast<int64_t>(constants->size()) != count) {
      constants =
          absl::InternalError(absl::StrCat("the schedule of ", count, " steps from step ",
                                           first, " came as ", constants->size()));
    }
    MutexLock lock(&mutex_);
    wanted_.erase(block);
    fetched_.NotifyAll();
    if (!constants.ok()) {
      status_ = constants.status();
      return;
    }
    blocks_[block] = *std::move(constants);
  }
}

}  // namespace psring
