// Which tensors a step has made no use of.
#ifndef PSRING_WORKER_UNUSED_TENSORS_H_
#define PSRING_WORKER_UNUSED_TENSORS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/layout.h"

namespace psring {

// Those that none of its passes has used. Take each pass once, then Check. One thread.
class UnusedTensors {
 public:
  // `layout` outlives this.
  UnusedTensors(const ParameterLayout* layout, int64_t passes)
      : layout_(layout), passes_(passes), unused_passes_(layout->tensors().size()) {}

  // `unused` are pass `pass`'s, from 0: Model::unused.
  void Take(int64_t pass, std::span<const int> unused);

  // FailedPrecondition, where there are any: names the rank, the step, and all of them.
  absl::Status Check(int rank, int64_t step) const;

 private:
  const ParameterLayout* const layout_;
  const int64_t passes_;
  std::vector<int64_t> unused_passes_;  // Of this step, by tensor.
};

}  // namespace psring

#endif  // PSRING_WORKER_UNUSED_TENSORS_H_
