// One place to say "stop, because ..." and have everything that blocks hear it.
#ifndef PSRING_COMMON_ABORT_SOURCE_H_
#define PSRING_COMMON_ABORT_SOURCE_H_

#include <functional>
#include <list>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/mutex.h"

namespace psring {

// Any thread. The first reason counts; later ones are ignored.
class AbortSource {
 public:
  using Callback = std::function<void(const absl::Status& reason)>;

  // While it lives, its callback may be called, at most once, and in the constructor
  // where the abort has come already; when its destructor has returned, the callback is
  // neither running nor to come.
  class Registration {
   public:
    Registration(AbortSource* source, Callback callback);
    ~Registration();
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;

   private:
    AbortSource* const source_;
    std::list<Callback>::iterator position_;
  };

  // Calls every registered callback in this thread, holding the source's lock: callbacks
  // tell others and return soon, and never call back into this object.
  void Abort(const absl::Status& reason);

  // OK until aborted.
  absl::Status reason() const;

  // Blocks for so long, or until aborted: OK, or the reason.
  absl::Status WaitFor(absl::Duration duration);

 private:
  mutable Mutex mutex_;
  CondVar aborted_;
  absl::Status reason_ ABSL_GUARDED_BY(mutex_);
  std::list<Callback> callbacks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace psring

#endif  // PSRING_COMMON_ABORT_SOURCE_H_
