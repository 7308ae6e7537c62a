// Whose fault each exposed nanosecond of a step is. Pure.
#ifndef PSRING_EXPERIMENTS_WAITS_H_
#define PSRING_EXPERIMENTS_WAITS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "experiments/aligned_clocks.h"
#include "proto/record.pb.h"

namespace psring {

// How exposed time is cut, for one worker and one step; in both architectures alike.
//
// A bucket has *begun* when it is full and launched here. It is *awaited* from then until
// the last worker has launched it: before that no sum of it can be complete. From then
// until it is *done* its bytes move, or it is added up or applied. Other workers' points
// in time are on aligned clocks (aligned_clocks.h). Where an exchange does not wait for
// all workers, all buckets are awaited from the beginning of Finish for as long as the
// servers say that they have kept an answer back, and by the worker that they name.
//
// At each moment of exposed time the first of these that holds is the cause:
//   1. Some bucket is neither awaited nor done: what is communicating is nobody's fault.
//      It is `working` for the part that the bucket with the lowest index among these was
//      worked on of all its time, and `on the wire` for the rest.
//   2. Some bucket has begun: `peer late`. To blame is who is awaited by the one with the
//      lowest index, which is the next to move.
//   3. Some bucket is not done: `not ready here`.
//   4. None is left: `working`. This worker itself goes on, or is about to.
// So the four add up to exposed time exactly.

// Nanoseconds on the worker's clock.
struct BucketWait {
  int64_t begun_ns = 0;
  int64_t awaited_until_ns = 0;  // At most done_ns; before begun_ns: not awaited.
  int awaited_rank = 0;          // Where awaited.
  int64_t done_ns = 0;
  int64_t working_ns = 0;
};

struct TimeSpan {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
};

struct Causes {
  int64_t not_ready_ns = 0;
  int64_t peer_late_ns = 0;
  int64_t on_wire_ns = 0;
  int64_t working_ns = 0;
  // Who was late; of several, who was for longest.
  std::optional<int> waited_for = std::nullopt;

  int64_t total_ns() const {
    return not_ready_ns + peer_late_ns + on_wire_ns + working_ns;
  }
};

// `exposed` are apart from each other and in order; `buckets` are by index.
Causes CutByCause(std::span<const TimeSpan> exposed, std::span<const BucketWait> buckets);

// When backward began and ended; and with it Finish began.
int64_t BackwardBegin(const StepRecord& step);
int64_t FinishBegin(const StepRecord& step);

// The buckets of `rank` in a step; `steps` are the same step of each rank, null where it
// is not known. `awaits_all` says whether each bucket is exchanged with all ranks.
std::vector<BucketWait> WaitsOf(int rank, std::span<const StepRecord* const> steps,
                                bool awaits_all, const AlignedClocks& clocks);

// Finish without the local optimizer. Of it the step says only how long it took there: it
// is taken to have been at the buckets that were done in Finish, as they were done, at
// each for as long as its share of their bytes is; the last one counts in any case.
// `bucket_bytes` are by index.
std::vector<TimeSpan> ExposedSpans(const StepRecord& step,
                                   std::span<const int64_t> bucket_bytes);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_WAITS_H_
