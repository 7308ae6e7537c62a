#include "common/abort_source.h"

#include <optional>
#include <thread>

#include "common/status_matchers.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::Eq;

TEST(AbortSourceTest, TheFirstReasonReachesEveryone) {
  AbortSource source;
  EXPECT_OK(source.reason());
  absl::Status heard;
  const AbortSource::Registration registration(
      &source, [&](const absl::Status& reason) { heard = reason; });
  source.Abort(absl::CancelledError("first"));
  source.Abort(absl::CancelledError("second"));
  EXPECT_THAT(heard, StatusIs(absl::StatusCode::kCancelled, Eq("first")));
  EXPECT_THAT(source.reason(), StatusIs(absl::StatusCode::kCancelled, Eq("first")));
}

TEST(AbortSourceTest, WhoComesLateHearsAtOnce) {
  AbortSource source;
  source.Abort(absl::CancelledError("over"));
  int calls = 0;
  const AbortSource::Registration registration(&source,
                                               [&](const absl::Status&) { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST(AbortSourceTest, WhoHasGoneHearsNothing) {
  AbortSource source;
  int calls = 0;
  {
    const AbortSource::Registration registration(&source,
                                                 [&](const absl::Status&) { ++calls; });
  }
  source.Abort(absl::CancelledError("over"));
  EXPECT_EQ(calls, 0);
}

TEST(AbortSourceTest, AWaitEndsInItsTimeOrWithTheReason) {
  AbortSource source;
  EXPECT_OK(source.WaitFor(absl::Microseconds(1)));
  std::thread other([&] { source.Abort(absl::CancelledError("over")); });
  EXPECT_THAT(source.WaitFor(absl::InfiniteDuration()),
              StatusIs(absl::StatusCode::kCancelled, Eq("over")));
  EXPECT_THAT(source.WaitFor(absl::InfiniteDuration()),
              StatusIs(absl::StatusCode::kCancelled, Eq("over")));
  other.join();
}

}  // namespace
}  // namespace psring
