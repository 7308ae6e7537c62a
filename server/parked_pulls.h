// The pulls of a slot that may not be answered yet.
#ifndef PSRING_SERVER_PARKED_PULLS_H_
#define PSRING_SERVER_PARKED_PULLS_H_

#include <cstdint>
#include <functional>
#include <list>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/consistency_policy.h"
#include "server/slot_parameters.h"

namespace psring {

// The fields are those of ParameterAnswer (proto/parameter_server.proto).
struct PullAnswer {
  SlotVersion parameters;
  int64_t step = 0;
  bool finished = false;
  absl::Duration parked = absl::ZeroDuration();
  int released_by = 0;  // Where parked.
  absl::Duration working = absl::ZeroDuration();
};

using PullDone = std::function<void(absl::StatusOr<PullAnswer> answer)>;

struct ParkedPull {
  int64_t id = 0;  // Positive.
  PullInfo pull;
  absl::Duration since;
  PullDone done;
  PullAnswer answer;  // Once it is known.
};

// In order of arrival. What has been taken out is its user's, who calls it with no lock
// held and then gives it back: the memory is that of the most pulls parked at once, and
// in the steady state nothing is allocated. Not thread-safe.
class ParkedPulls {
 public:
  using List = std::list<ParkedPull>;

  // Returns its id.
  int64_t Park(const PullInfo& pull, absl::Duration since, PullDone done);

  // Takes those for which `is_due`, which may fill in the answer.
  List TakeDue(absl::FunctionRef<bool(ParkedPull& pull)> is_due);
  // At most one.
  List Take(int64_t id);
  List TakeAll();
  // After done has been called and let go of.
  void GiveBack(List taken);

  const List& parked() const { return parked_; }

 private:
  int64_t last_id_ = 0;
  List parked_;
  List unused_;
};

}  // namespace psring

#endif  // PSRING_SERVER_PARKED_PULLS_H_
