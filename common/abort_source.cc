#include "common/abort_source.h"

#include <utility>

#include "glog/logging.h"

namespace psring {

AbortSource::Registration::Registration(AbortSource* source, Callback callback)
    : source_(source) {
  MutexLock lock(&source_->mutex_);
  if (!source_->reason_.ok()) callback(source_->reason_);
  position_ = source_->callbacks_.insert(source_->callbacks_.end(), std::move(callback));
}

AbortSource::Registration::~Registration() {
  MutexLock lock(&source_->mutex_);
  source_->callbacks_.erase(position_);
}

void AbortSource::Abort(const absl::Status& reason) {
  CHECK(!reason.ok());
  MutexLock lock(&mutex_);
  if (!reason_.ok()) return;
  reason_ = reason;
  aborted_.NotifyAll();
  for (const Callback& callback : callbacks_) callback(reason_);
}

absl::Status AbortSource::reason() const {
  MutexLock lock(&mutex_);
  return reason_;
}

absl::Status AbortSource::WaitFor(absl::Duration duration) {
  const auto deadline = SteadyDeadline(duration);
  MutexLock lock(&mutex_);
  while (reason_.ok() && !aborted_.WaitUntil(&mutex_, deadline)) {
  }
  return reason_;
}

}  // namespace psring
