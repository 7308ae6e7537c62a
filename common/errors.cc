#include "common/errors.h"

#include <optional>
#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace psring {
namespace {

constexpr char kExitCodeUrl[] = "psring/exit_code";

}  // namespace

absl::Status WithExitCode(absl::Status status, ExitCode code) {
  status.SetPayload(kExitCodeUrl, absl::Cord(absl::StrCat(static_cast<int>(code))));
  return status;
}

ExitCode ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return ExitCode::kOk;
  if (const auto payload = status.GetPayload(kExitCodeUrl)) {
    int code = 0;
    if (absl::SimpleAtoi(std::string(*payload), &code))
      return static_cast<ExitCode>(code);
  }
  return absl::IsInvalidArgument(status) || absl::IsNotFound(status) ? ExitCode::kUsage
                                                                     : ExitCode::kFailure;
}

absl::Status PeerLostError(absl::string_view message) {
  return WithExitCode(absl::UnavailableError(message), ExitCode::kPeerLost);
}

absl::Status RendezvousTimeoutError(absl::string_view message) {
  return WithExitCode(absl::DeadlineExceededError(message), ExitCode::kRendezvousTimeout);
}

absl::Status CheckFailedError(absl::string_view message) {
  return WithExitCode(absl::DataLossError(message), ExitCode::kCheckFailed);
}

absl::Status NotANumberError(absl::string_view message) {
  return WithExitCode(absl::OutOfRangeError(message), ExitCode::kNotANumber);
}

absl::Status Annotate(const absl::Status& status, absl::string_view context) {
  if (status.ok()) return status;
  return WithExitCode(
      absl::Status(status.code(), absl::StrCat(context, ": ", status.message())),
      ExitCodeOf(status));
}

Failure ToFailure(const absl::Status& status) {
  Failure failure;
  failure.set_status_code(static_cast<int>(status.code()));
  failure.set_message(std::string(status.message()));
  failure.set_exit_code(static_cast<int>(ExitCodeOf(status)));
  return failure;
}

absl::Status FromFailure(const Failure& failure) {
  return WithExitCode(absl::Status(static_cast<absl::StatusCode>(failure.status_code()),
                                   failure.message()),
                      static_cast<ExitCode>(failure.exit_code()));
}

}  // namespace psring
