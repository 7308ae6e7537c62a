// Who wants to know what happens in a job.
#ifndef PSRING_COMMON_JOB_OBSERVER_H_
#define PSRING_COMMON_JOB_OBSERVER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/coordinator.pb.h"
#include "proto/record.pb.h"

namespace psring {

// Called by a Coordinator, one call at a time, in the threads that bring the news and
// wait meanwhile: it only writes down, and does not call back. Hears of what it
// overrides.
class JobObserver {
 public:
  virtual ~JobObserver() = default;

  // A process has become a member. Before anything else about it.
  virtual void Joined(const Hello& /*process*/) {}
  // A member is gone: by itself, with the outcome that it told, or lost. Once for each.
  virtual void Ended(const Hello& /*process*/, const absl::Status& /*outcome*/) {}
  // The job has been aborted while it had members or waited for some. At most once.
  virtual void Aborted(const absl::Status& /*reason*/) {}
  // A member gets no further, and may be found to be stalled.
  virtual void Warned(const std::string& /*text*/) {}
  // A member reports. `intake` is the processor time that all of its reports together
  // have taken here until this call.
  virtual void Reported(const Member& /*from*/, RecordBatch /*batch*/,
                        absl::Duration /*intake*/) {}
};

}  // namespace psring

#endif  // PSRING_COMMON_JOB_OBSERVER_H_
