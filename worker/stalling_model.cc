#include "worker/stalling_model.h"

namespace psring {

absl::StatusOr<double> StallingModel::Forward(const Batch& batch) {
  if (forwards_++ != step_) return model_->Forward(batch);
  Mutex mutex;
  CondVar changed;
  absl::Status reason;
  const AbortSource::Registration abort(aborts_, [&](const absl::Status& why) {
    MutexLock lock(&mutex);
    reason = why;
    changed.NotifyAll();
  });
  MutexLock lock(&mutex);
  while (reason.ok()) changed.Wait(&mutex);
  return reason;
}

}  // namespace psring
