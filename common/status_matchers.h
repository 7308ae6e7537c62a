// StatusIs and IsOk for tests, under Abseil's own names: this Abseil has none yet.
#ifndef PSRING_COMMON_STATUS_MATCHERS_H_
#define PSRING_COMMON_STATUS_MATCHERS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {

inline const absl::Status& GetStatus(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& GetStatus(const absl::StatusOr<T>& status) {
  return status.status();
}

MATCHER(IsOk, "is OK") {
  *result_listener << GetStatus(arg).ToString();
  return GetStatus(arg).ok();
}

// Code as given, and a message that the inner matcher accepts.
MATCHER_P2(StatusIs, code, message, "") {
  *result_listener << GetStatus(arg).ToString();
  return GetStatus(arg).code() == code &&
         testing::ExplainMatchResult(message, std::string(GetStatus(arg).message()),
                                     result_listener);
}

}  // namespace psring

#define ASSERT_OK(expression) ASSERT_THAT(expression, ::psring::IsOk())
#define EXPECT_OK(expression) EXPECT_THAT(expression, ::psring::IsOk())

#define PSRING_TEST_CONCAT_INNER(a, b) a##b
#define PSRING_TEST_CONCAT(a, b) PSRING_TEST_CONCAT_INNER(a, b)
#define ASSERT_OK_AND_ASSIGN(left, expression)                                    \
  ASSERT_OK_AND_ASSIGN_INNER(PSRING_TEST_CONCAT(psring_statusor, __LINE__), left, \
                             expression)
#define ASSERT_OK_AND_ASSIGN_INNER(temporary, left, expression) \
  auto temporary = (expression);                                \
  ASSERT_OK(temporary);                                         \
  left = *std::move(temporary)

#endif  // PSRING_COMMON_STATUS_MATCHERS_H_
