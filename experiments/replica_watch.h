// Which tensors are not the same on all ranks, found while a run goes on.
#ifndef PSRING_EXPERIMENTS_REPLICA_WATCH_H_
#define PSRING_EXPERIMENTS_REPLICA_WATCH_H_

#include <cstdint>
#include <map>
#include <vector>

#include "experiments/tensor_digest.h"
#include "proto/record.pb.h"

namespace psring {

// A model may have thousands of tensors, and a run thousands of checked steps. So the
// digests of tensors are not kept but for one step: the first whose replicas are not
// equal, and of that one only those of tensors that are not. Until all ranks have
// reported a step, memory is one rank's tensors, and those of each that differs.
//
// For runs in which all workers should have the same parameters after each step. One
// thread at a time.
class ReplicaWatch {
 public:
  explicit ReplicaWatch(int workers) : workers_(workers) {}

  // Each rank's steps come in their order. The digests to keep, of all ranks, where this
  // is the last rank's record of the first step with unequal replicas; else none.
  std::vector<TensorDigest> Take(const StepRecord& step);

  // The same when no more comes, of a step that not all ranks have come to.
  std::vector<TensorDigest> End();

 private:
  using Tensors = std::vector<uint64_t>;
  // Of one step so far: ranks by their tensors.
  struct Reported {
    uint64_t first_digest = 0;
    Tensors first;
    std::vector<int> equal;        // Ranks that have the first one's digest.
    std::map<int, Tensors> other;  // By rank.

    int ranks() const { return static_cast<int>(equal.size() + other.size()); }
  };

  std::vector<TensorDigest> Unequal(int64_t step, const Reported& reported);

  const int workers_;
  std::map<int64_t, Reported> reported_;  // By step.
  bool found_ = false;
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_REPLICA_WATCH_H_
