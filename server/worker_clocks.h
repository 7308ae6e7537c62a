// How far each worker is with one slot. A pure value; not thread-safe.
#ifndef PSRING_SERVER_WORKER_CLOCKS_H_
#define PSRING_SERVER_WORKER_CLOCKS_H_

#include <cstdint>
#include <vector>

namespace psring {

// A worker's clock is the number of steps it has pushed: after the push of step s it
// is s + 1. Ranks are 0 <= rank < workers().
class WorkerClocks {
 public:
  // Requires workers > 0. All clocks start at 0.
  explicit WorkerClocks(int workers);

  int workers() const { return static_cast<int>(clocks_.size()); }
  int64_t clock(int rank) const { return clocks_[rank]; }

  bool HasPushed(int rank, int64_t step) const { return clocks_[rank] > step; }
  int CountPushed(int64_t step) const;
  // Ranks that have not pushed `step`, in order.
  std::vector<int> Missing(int64_t step) const;

  // Requires that the rank has not pushed `step`.
  void RecordPush(int rank, int64_t step);

 private:
  std::vector<int64_t> clocks_;  // By rank.
};

}  // namespace psring

#endif  // PSRING_SERVER_WORKER_CLOCKS_H_
