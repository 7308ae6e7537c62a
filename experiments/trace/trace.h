// `psring trace`.
#ifndef PSRING_EXPERIMENTS_TRACE_TRACE_H_
#define PSRING_EXPERIMENTS_TRACE_TRACE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "experiments/step_reader.h"

namespace psring {

// A picture of more steps is more than viewers like to open; --steps asks for others.
inline constexpr int64_t kTracedSteps = 200;

struct TraceOptions {
  std::string run;               // A run folder, or its run.db.
  std::string arm;               // Empty: all.
  std::optional<uint64_t> seed;  // None: all.
  // None: the last kTracedSteps of each arm. Where workers do not keep step, of the one
  // that has come furthest, and what the others began in that time.
  std::optional<StepRange> steps;
  std::string out;  // Empty: trace.json beside run.db.
};

// Writes Chrome trace events (experiments/trace/step_events.h) of all that the options
// name, arms one below the other from the same zero: where each one's first step shown
// begins. `log` gets a line on what is left out, and one on what was written. Takes no
// memory for the length of the run. Errors: wrong usage, or what cannot be written.
absl::Status WriteTrace(const TraceOptions& options, std::ostream* log);

// The way of one bucket in one step, of each arm that the options name.
absl::StatusOr<std::string> TellBucketPath(const TraceOptions& options, int64_t bucket,
                                           int64_t step);

// "40-60", "7"; InvalidArgument: it is neither.
absl::StatusOr<StepRange> ParseSteps(const std::string& text);

// Adds `trace` to the program's commands. If it is the one that is asked for, parsing
// sets *chosen to what runs it.
void AddTraceCommand(CLI::App* app, std::function<absl::Status()>* chosen);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_TRACE_TRACE_H_
