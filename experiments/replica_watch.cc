#include "experiments/replica_watch.h"

#include <algorithm>

namespace psring {

std::vector<TensorDigest> ReplicaWatch::Take(const StepRecord& step) {
  if (found_ || workers_ < 2 || !step.has_parameter_digest()) return {};
  Reported& reported = reported_[step.step()];
  const int rank = static_cast<int>(step.rank());
  if (reported.ranks() == 0) {
    reported.first_digest = step.parameter_digest();
    reported.first.assign(step.tensor_digests().begin(), step.tensor_digests().end());
  }
  if (step.parameter_digest() == reported.first_digest) {
    reported.equal.push_back(rank);
  } else {
    reported.other[rank].assign(step.tensor_digests().begin(),
                                step.tensor_digests().end());
  }
  if (reported.ranks() < workers_) return {};
  std::vector<TensorDigest> unequal = Unequal(step.step(), reported);
  reported_.erase(step.step());
  if (found_) reported_.clear();
  return unequal;
}

std::vector<TensorDigest> ReplicaWatch::End() {
  for (const auto& [step, reported] : reported_) {
    if (std::vector<TensorDigest> unequal = Unequal(step, reported); !unequal.empty()) {
      return unequal;
    }
  }
  return {};
}

std::vector<TensorDigest> ReplicaWatch::Unequal(int64_t step, const Reported& reported) {
  std::vector<TensorDigest> unequal;
  for (size_t tensor = 0; tensor < reported.first.size(); ++tensor) {
    const uint64_t first = reported.first[tensor];
    const auto differs = [&](const auto& other) {
      return tensor < other.second.size() && other.second[tensor] != first;
    };
    if (std::none_of(reported.other.begin(), reported.other.end(), differs)) continue;
    const auto add = [&](int rank, uint64_t digest) {
      unequal.push_back({.rank = rank,
                         .step = step,
                         .tensor = static_cast<int>(tensor),
                         .digest = digest});
    };
    for (const int rank : reported.equal) add(rank, first);
    for (const auto& [rank, tensors] : reported.other) {
      if (tensor < tensors.size()) add(rank, tensors[tensor]);
    }
  }
  found_ = found_ || !reported.other.empty();
  return unequal;
}

}  // namespace psring
