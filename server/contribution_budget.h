// How many contributions a run still has to begin, and who may begin one.
#ifndef PSRING_SERVER_CONTRIBUTION_BUDGET_H_
#define PSRING_SERVER_CONTRIBUTION_BUDGET_H_

#include <cstdint>
#include <vector>

namespace psring {

// A run ends when a number of contributions has been made, however they are spread over
// the workers. If servers counted what comes in, workers would be in the middle of more
// by the time they hear that it is enough, and slots would end with different ones. So
// contributions are counted before they are begun: the answer to a pull allows one, once,
// until the budget is used up. One slot of the run decides for all, because a worker
// that may begin a step pushes all its slots.
//
// A pure value; not thread-safe.
class ContributionBudget {
 public:
  // workers * steps contributions; `even`: `steps` of each worker.
  ContributionBudget(int workers, int64_t steps, bool even)
      : left_(workers * steps),
        most_(even ? steps : left_),
        begun_(workers),
        allowed_(workers) {}

  // Whether the rank may begin a contribution. Asked again before it has pushed, it is
  // the same one.
  bool Allow(int rank) {
    if (allowed_[rank]) return true;
    if (left_ == 0 || begun_[rank] == most_) return false;
    --left_;
    ++begun_[rank];
    allowed_[rank] = true;
    return true;
  }

  // The rank has pushed what it was allowed to begin.
  void Spend(int rank) { allowed_[rank] = false; }

 private:
  int64_t left_;
  const int64_t most_;          // Of one worker.
  std::vector<int64_t> begun_;  // By rank.
  std::vector<bool> allowed_;   // By rank: allowed, and not pushed yet.
};

}  // namespace psring

#endif  // PSRING_SERVER_CONTRIBUTION_BUDGET_H_
