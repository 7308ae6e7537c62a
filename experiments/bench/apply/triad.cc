#include "experiments/bench/apply/triad.h"

#include <algorithm>

#include "common/partition.h"
#include "common/vectorize.h"

namespace psring {
namespace {

// Sums and products of whole numbers are exact.
constexpr float kB = 1;
constexpr float kC = 2;
constexpr float kScalar = 3;

PSRING_VECTORIZED
void AddScaled(float* __restrict a, const float* __restrict b, const float* __restrict c,
               float scalar, int64_t count) {
  for (int64_t i = 0; i < count; ++i) a[i] = b[i] + scalar * c[i];
}

}  // namespace

Triad::Triad(int64_t count, int64_t operations, ThreadTeam* team)
    : count_(count),
      team_(team),
      a_(static_cast<size_t>(count * operations)),
      b_(a_.size(), kB),
      c_(a_.size(), kC) {}

void Triad::Run(int64_t operation) {
  team_->Run([&](int thread) {
    const Range share = PartitionRange(count_, team_->size(), thread);
    const int64_t begin = operation * count_ + share.begin;
    AddScaled(a_.data() + begin, b_.data() + begin, c_.data() + begin, kScalar,
              share.count);
  });
}

int64_t Triad::CountWrong(int64_t operation) const {
  const auto begin = a_.begin() + operation * count_;
  return count_ - std::count(begin, begin + count_, kB + kScalar * kC);
}

}  // namespace psring
