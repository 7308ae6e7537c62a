// Points in time of several workers, side by side. Pure.
#ifndef PSRING_EXPERIMENTS_ALIGNED_CLOCKS_H_
#define PSRING_EXPERIMENTS_ALIGNED_CLOCKS_H_

#include <cstdint>
#include <map>
#include <vector>

#include "proto/record.pb.h"

namespace psring {

// Each worker has compared its clock with the coordinator's before its first step and
// after its last: its offset goes evenly from the one to the other, so that clocks which
// run at different speeds stay aligned. One that was compared once keeps its offset; one
// that never was is taken for the coordinator's. Nanoseconds.
class AlignedClocks {
 public:
  // A worker's, in order of time.
  void Add(int rank, const ClockRecord& compared);

  // When `to`'s clock shows what `from`'s does at `time_ns`.
  int64_t Translate(int from, int64_t time_ns, int to) const;
  // Of a difference between two workers' points in time, at most.
  int64_t error_ns() const;

 private:
  double OffsetAt(int rank, int64_t time_ns) const;

  std::map<int, std::vector<ClockRecord>> compared_;  // By rank.
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_ALIGNED_CLOCKS_H_
