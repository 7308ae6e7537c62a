// Which process speaks for each worker's rank. Pure.
#ifndef PSRING_SERVER_INCARNATION_FENCE_H_
#define PSRING_SERVER_INCARNATION_FENCE_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace psring {

// A worker's process may be replaced by another, which is another incarnation of the
// rank. From then on the old one is fenced out: a process that was only cut off, and
// comes again, must not go on beside its replacement.
//
// What is remembered is bounded: of a rank's replaced incarnations the last
// kMostReplaced. Nothing hangs on it that would count a contribution twice, since the
// shard counts by rank and step.
//
// A pure value; not thread-safe.
class IncarnationFence {
 public:
  static constexpr size_t kMostReplaced = 64;

  explicit IncarnationFence(int workers) : ranks_(workers) {}

  // True: the process speaks for the rank from now on, as it may have done before. False:
  // another has taken its place.
  bool Admit(int rank, uint64_t incarnation) {
    Rank& state = ranks_[rank];
    if (state.current == incarnation) return true;
    if (std::find(state.replaced.begin(), state.replaced.end(), incarnation) !=
        state.replaced.end()) {
      return false;
    }
    if (state.current) state.replaced.push_back(*state.current);
    if (state.replaced.size() > kMostReplaced) state.replaced.pop_front();
    state.current = incarnation;
    return true;
  }

  // Who speaks for the rank; none before the first was admitted.
  std::optional<uint64_t> current(int rank) const { return ranks_[rank].current; }

 private:
  struct Rank {
    std::optional<uint64_t> current;
    std::deque<uint64_t> replaced;  // The oldest first.
  };
  std::vector<Rank> ranks_;
};

}  // namespace psring

#endif  // PSRING_SERVER_INCARNATION_FENCE_H_
