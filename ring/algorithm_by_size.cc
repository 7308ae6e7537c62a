#include "ring/algorithm_by_size.h"

#include <algorithm>
#include <limits>

#include "glog/logging.h"

namespace psring {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

}  // namespace

AlgorithmBySize::AlgorithmBySize(Algorithm algorithm)
    : rows_{{.up_to_bytes = kNoLimit, .algorithm = algorithm}} {
  CHECK_NE(algorithm, RingMode::AUTO);
}

AlgorithmBySize::AlgorithmBySize(const RingMode& settings) {
  if (settings.algorithm() != RingMode::AUTO) {
    rows_ = {{.up_to_bytes = kNoLimit, .algorithm = settings.algorithm()}};
    return;
  }
  for (const AlgorithmChoice& choice : settings.choices()) {
    CHECK(rows_.empty() || rows_.back().up_to_bytes < kNoLimit);
    rows_.push_back(
        {.up_to_bytes = choice.has_up_to_bytes() ? choice.up_to_bytes() : kNoLimit,
         .algorithm = choice.algorithm()});
  }
  CHECK(!rows_.empty() && rows_.back().up_to_bytes == kNoLimit);
}

Algorithm AlgorithmBySize::For(int64_t bytes) const {
  for (const Row& row : rows_) {
    if (bytes <= row.up_to_bytes) return row.algorithm;
  }
  LOG(FATAL) << "no algorithm for " << bytes << " bytes";
}

std::vector<Algorithm> AlgorithmBySize::all() const {
  std::vector<Algorithm> all;
  for (const Row& row : rows_) {
    if (std::ranges::find(all, row.algorithm) == all.end()) all.push_back(row.algorithm);
  }
  return all;
}

}  // namespace psring
