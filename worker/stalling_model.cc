#include "worker/stalling_model.h"

#include "absl/time/time.h"
#include "glog/logging.h"

namespace psring {

absl::StatusOr<double> StallingModel::Forward(const Batch& batch) {
  if (forwards_++ != forward_) return model_->Forward(batch);
  const absl::Status reason = aborts_->WaitFor(absl::InfiniteDuration());
  CHECK(!reason.ok());
  return reason;
}

}  // namespace psring
