#include "experiments/bench/obey.h"

#include "common/errors.h"
#include "common/status_macros.h"
#include "experiments/bench/channel.h"

namespace psring {

absl::Status ObeyLauncher(
    const std::string& control, const BenchHello& hello,
    absl::FunctionRef<absl::Status(const BenchCommand& command, BenchReply* reply)>
        obey) {
  ASSIGN_OR_RETURN(BenchChannel channel, BenchChannel::Connect(control));
  RETURN_IF_ERROR(channel.Send(hello));
  for (;;) {
    BenchCommand command;
    const absl::Status received = channel.Receive(&command);
    if (absl::IsUnavailable(received)) return absl::OkStatus();  // The launcher is done.
    RETURN_IF_ERROR(received);
    BenchReply reply;
    const absl::Status status = obey(command, &reply);
    *reply.mutable_failure() = ToFailure(status);
    RETURN_IF_ERROR(channel.Send(reply));
    RETURN_IF_ERROR(status);
  }
}

absl::Status UnknownCommandError() {
  return absl::InternalError("the launcher sent a command that this program lacks");
}

}  // namespace psring
