#include "server/worker_clocks.h"

#include <algorithm>
#include <utility>

#include "glog/logging.h"

namespace psring {

WorkerClocks::WorkerClocks(int workers) : WorkerClocks(std::vector<int64_t>(workers)) {}

WorkerClocks::WorkerClocks(std::vector<int64_t> clocks)
    : clocks_(std::move(clocks)), has_left_(clocks_.size()) {
  CHECK(!clocks_.empty());
}

int WorkerClocks::CountPushed(int64_t step) const {
  int count = 0;
  for (int rank = 0; rank < workers(); ++rank) {
    if (!HasLeft(rank) && HasPushed(rank, step)) ++count;
  }
  return count;
}

std::vector<int> WorkerClocks::Missing(int64_t step) const {
  std::vector<int> missing;
  for (int rank = 0; rank < workers(); ++rank) {
    if (!HasLeft(rank) && !HasPushed(rank, step)) missing.push_back(rank);
  }
  return missing;
}

int64_t WorkerClocks::Lag(int rank) const {
  int64_t slowest = clock(rank);
  for (int other = 0; other < workers(); ++other) {
    if (!HasLeft(other)) slowest = std::min(slowest, clock(other));
  }
  return clock(rank) - slowest;
}

void WorkerClocks::RecordPush(int rank, int64_t step) {
  CHECK(!HasPushed(rank, step)) << "rank " << rank << ", step " << step;
  clocks_[rank] = step + 1;
}

void WorkerClocks::Leave(int rank) {
  if (has_left_[rank]) return;
  has_left_[rank] = true;
  ++left_;
}

}  // namespace psring
