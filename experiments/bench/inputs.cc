#include "experiments/bench/inputs.h"

#include "absl/strings/str_cat.h"

namespace psring {

float BenchInput(int rank, int64_t operation, int64_t index) {
  return static_cast<float>((int64_t{64} << rank) + 1 + (index + operation) % 61);
}

float BenchSum(int ranks, int64_t operation, int64_t index) {
  return static_cast<float>(64 * ((int64_t{1} << ranks) - 1) +
                            ranks * (1 + (index + operation) % 61));
}

std::string DescribeWrongValue(int ranks, int64_t operation, int64_t index, float got,
                               float expected) {
  std::string text = absl::StrCat("element ", index, ": ", got, " instead of ", expected);
  for (int rank = 0; rank < ranks; ++rank) {
    const float input = BenchInput(rank, operation, index);
    if (got == expected - input) {
      absl::StrAppend(&text, ": rank ", rank, "'s value is missing");
    } else if (got == expected + input) {
      absl::StrAppend(&text, ": rank ", rank, "'s value was added twice");
    }
  }
  return text;
}

}  // namespace psring
