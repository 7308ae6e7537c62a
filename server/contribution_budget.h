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
  // workers * steps > 0 contributions; `even`: `steps` of each worker. Each worker is
  // allowed one from the start: it makes a step before it hears how many there are.
  // `made`: by rank, how many it has made before; there is one more for each.
  ContributionBudget(const std::vector<int64_t>& made, int64_t steps, bool even)
      : left_(static_cast<int64_t>(made.size()) * (steps - 1)),
        most_(even ? steps : static_cast<int64_t>(made.size()) * steps),
        begun_(made),
        allowed_(made.size(), true) {
    for (int64_t& begun : begun_) left_ -= begun++;
  }

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

  // Whether the rank has been allowed a contribution that it has not pushed yet.
  bool IsAllowed(int rank) const { return allowed_[rank]; }

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
