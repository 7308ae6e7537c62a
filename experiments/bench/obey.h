// The end of a channel at which a process under test does what the launcher says.
#ifndef PSRING_EXPERIMENTS_BENCH_OBEY_H_
#define PSRING_EXPERIMENTS_BENCH_OBEY_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "proto/bench.pb.h"

namespace psring {

// Connects to the launcher's channel at `control`, introduces itself, and calls `obey`
// with each command, whose reply it sends, until the launcher closes the channel. Returns
// OK then, and where a command failed, once the launcher knows, the reason.
absl::Status ObeyLauncher(
    const std::string& control, const BenchHello& hello,
    absl::FunctionRef<absl::Status(const BenchCommand& command, BenchReply* reply)> obey);

// For a command that the program lacks.
absl::Status UnknownCommandError();

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_OBEY_H_
