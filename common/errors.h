// What went wrong, in a form that crosses processes and ends as an exit code.
//
// An absl::Status says what the caller should do next; the exit code, carried as a
// payload of the status, says what the shell is told. An error without one is a
// run-time failure, or wrong usage where its code is kInvalidArgument or kNotFound.
#ifndef PSRING_COMMON_ERRORS_H_
#define PSRING_COMMON_ERRORS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/coordinator.pb.h"

namespace psring {

enum class ExitCode : int {
  kOk = 0,
  kFailure = 1,
  kUsage = 2,
  kCheckFailed = 3,
  kRendezvousTimeout = 4,
  kPeerLost = 5,
  kNotANumber = 6,
  kSkipped = 77,
};

// The caller cannot mend these; every process of the job ends with them.
absl::Status PeerLostError(absl::string_view message);           // kUnavailable
absl::Status RendezvousTimeoutError(absl::string_view message);  // kDeadlineExceeded
absl::Status CheckFailedError(absl::string_view message);        // kDataLoss
absl::Status NotANumberError(absl::string_view message);         // kOutOfRange

absl::Status WithExitCode(absl::Status status, ExitCode code);
ExitCode ExitCodeOf(const absl::Status& status);

// The same error with "context: " in front of its message. OK stays OK.
absl::Status Annotate(const absl::Status& status, absl::string_view context);

// To and from the wire; the exit code survives.
Failure ToFailure(const absl::Status& status);
absl::Status FromFailure(const Failure& failure);

}  // namespace psring

#endif  // PSRING_COMMON_ERRORS_H_
