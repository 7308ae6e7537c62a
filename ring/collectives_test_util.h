// What the conformance suites of collectives share.
#ifndef PSRING_RING_COLLECTIVES_TEST_UTIL_H_
#define PSRING_RING_COLLECTIVES_TEST_UTIL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/device_span.h"
#include "gtest/gtest.h"
#include "ring/algorithm.h"
#include "ring/collectives.h"
#include "ring/transport.h"

namespace psring {

inline constexpr OperationTag kTag = {.step = 7, .bucket = 3};

inline DeviceSpan SpanOf(std::vector<float>& values) {
  return {.data = values.data(), .count = static_cast<int64_t>(values.size())};
}

// What carries the bytes: a name for the test's, and transports of all ranks (a null one
// for one rank), each linked to all others.
struct Over {
  std::string name;
  std::vector<std::unique_ptr<Transport>> (*make)(int ranks);
  bool narrow = false;  // Too slow for large counts.
};

// In every algorithm.
inline auto CollectivesOver(const std::vector<Over>& carriers) {
  return testing::Combine(testing::Values(RingMode::RING, RingMode::HALVING_DOUBLING,
                                          RingMode::TREE, RingMode::GATHER_BROADCAST),
                          testing::ValuesIn(carriers));
}

inline std::string CollectivesTestName(
    const testing::TestParamInfo<std::tuple<Algorithm, Over>>& info) {
  return absl::StrCat(RingMode::Algorithm_Name(std::get<0>(info.param)), "_",
                      std::get<1>(info.param).name);
}

}  // namespace psring

#endif  // PSRING_RING_COLLECTIVES_TEST_UTIL_H_
