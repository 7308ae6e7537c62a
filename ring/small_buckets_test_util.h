// A few parameters in three buckets, for tests that look at what a ring exchange does and
// not at how much.
#ifndef PSRING_RING_SMALL_BUCKETS_TEST_UTIL_H_
#define PSRING_RING_SMALL_BUCKETS_TEST_UTIL_H_

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/device_span.h"
#include "common/layout.h"
#include "proto/experiment.pb.h"

namespace psring {

inline constexpr int64_t kSmallCount = 8;

// Of 4, 3 and 1 elements.
inline BucketPlan SmallBuckets() {
  ParameterLayout layout;
  for (const int64_t count : {1, 3, 4}) layout.Add(absl::StrCat("of ", count), {count});
  return PlanBuckets(layout, /*cap_bytes=*/4, /*first_cap_bytes=*/4);
}

// With state for each element, and numbers that are exact.
inline Optimizer SmallAdam() {
  Optimizer optimizer;
  optimizer.mutable_adam()->set_learning_rate(0.25f);
  optimizer.mutable_adam()->set_beta1(0.5f);
  optimizer.mutable_adam()->set_beta2(0.75f);
  optimizer.mutable_adam()->set_epsilon(1e-3f);
  return optimizer;
}

inline DeviceSpan SpanOf(std::vector<float>& values) {
  return {.data = values.data(), .count = static_cast<int64_t>(values.size())};
}

}  // namespace psring

#endif  // PSRING_RING_SMALL_BUCKETS_TEST_UTIL_H_
