#include "server/worker_clocks.h"

#include "glog/logging.h"

namespace psring {

WorkerClocks::WorkerClocks(int workers) : clocks_(workers, 0) { CHECK_GT(workers, 0); }

int WorkerClocks::CountPushed(int64_t step) const {
  int count = 0;
  for (int rank = 0; rank < workers(); ++rank) count += HasPushed(rank, step) ? 1 : 0;
  return count;
}

std::vector<int> WorkerClocks::Missing(int64_t step) const {
  std::vector<int> missing;
  for (int rank = 0; rank < workers(); ++rank) {
    if (!HasPushed(rank, step)) missing.push_back(rank);
  }
  return missing;
}

void WorkerClocks::RecordPush(int rank, int64_t step) {
  CHECK(!HasPushed(rank, step)) << "rank " << rank << ", step " << step;
  clocks_[rank] = step + 1;
}

}  // namespace psring
