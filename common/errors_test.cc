#include "common/errors.h"

#include "common/status_matchers.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::Eq;

TEST(ErrorsTest, ExitCodes) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), ExitCode::kOk);
  EXPECT_EQ(ExitCodeOf(PeerLostError("x")), ExitCode::kPeerLost);
  EXPECT_EQ(ExitCodeOf(RendezvousTimeoutError("x")), ExitCode::kRendezvousTimeout);
  EXPECT_EQ(ExitCodeOf(CheckFailedError("x")), ExitCode::kCheckFailed);
  EXPECT_EQ(ExitCodeOf(NotANumberError("x")), ExitCode::kNotANumber);
  EXPECT_EQ(ExitCodeOf(absl::InvalidArgumentError("x")), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeOf(absl::NotFoundError("x")), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeOf(absl::InternalError("x")), ExitCode::kFailure);
}

TEST(ErrorsTest, AnnotateKeepsCodeAndExitCode) {
  const absl::Status status = Annotate(PeerLostError("gone"), "worker 1");
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, Eq("worker 1: gone")));
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kPeerLost);
  EXPECT_OK(Annotate(absl::OkStatus(), "worker 1"));
}

TEST(ErrorsTest, SurvivesTheWire) {
  const absl::Status status =
      WithExitCode(absl::CancelledError("stopped"), static_cast<ExitCode>(130));
  const absl::Status back = FromFailure(ToFailure(status));
  EXPECT_THAT(back, StatusIs(absl::StatusCode::kCancelled, Eq("stopped")));
  EXPECT_EQ(static_cast<int>(ExitCodeOf(back)), 130);
}

}  // namespace
}  // namespace psring
