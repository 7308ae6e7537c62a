// How far each worker is with one slot. A pure value; not thread-safe.
#ifndef PSRING_SERVER_WORKER_CLOCKS_H_
#define PSRING_SERVER_WORKER_CLOCKS_H_

#include <cstdint>
#include <vector>

namespace psring {

// A worker's clock is the number of steps it has pushed: after the push of step s it is
// s + 1, also where it has jumped over steps. A worker that has left keeps its clock, but
// counts no more as one to wait for. Ranks are 0 <= rank < workers().
class WorkerClocks {
 public:
  // Requires workers > 0. All clocks start at 0.
  explicit WorkerClocks(int workers);
  // By rank, where the job goes on from a checkpoint. Not empty.
  explicit WorkerClocks(std::vector<int64_t> clocks);

  int workers() const { return static_cast<int>(clocks_.size()); }
  int left() const { return left_; }
  bool HasLeft(int rank) const { return has_left_[rank]; }
  int64_t clock(int rank) const { return clocks_[rank]; }

  bool HasPushed(int rank, int64_t step) const { return clocks_[rank] > step; }
  // Of those that have not left.
  int CountPushed(int64_t step) const;
  bool AnyMissing(int64_t step) const { return CountPushed(step) < workers() - left_; }
  // Ranks that have not pushed `step` and have not left, in order.
  std::vector<int> Missing(int64_t step) const;
  // How many steps the rank is ahead of the slowest that has not left, itself included
  // although it may have; so never negative.
  int64_t Lag(int rank) const;

  // Requires that the rank has not pushed `step`.
  void RecordPush(int rank, int64_t step);
  void Leave(int rank);

 private:
  std::vector<int64_t> clocks_;  // By rank.
  std::vector<bool> has_left_;   // By rank.
  int left_ = 0;
};

}  // namespace psring

#endif  // PSRING_SERVER_WORKER_CLOCKS_H_
