#include "experiments/trace/trace.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <span>
#include <vector>

#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "experiments/run_file.h"
#include "experiments/sqlite.h"
#include "experiments/text.h"
#include "experiments/trace/bucket_path.h"
#include "experiments/trace/event_writer.h"
#include "experiments/trace/step_events.h"
#include "experiments/trace/traced_run.h"
#include "nlohmann/json.hpp"

namespace psring {
namespace {

using nlohmann::ordered_json;

std::string ToString(const StepRange& steps) {
  return steps.first == steps.last
             ? absl::StrCat("step ", steps.first)
             : absl::StrCat("steps ", steps.first, " to ", steps.last);
}

// "ring: there is no step 70; there are steps 0 to 49"
absl::Status NoSteps(const TracedRun& run, const StepRange& asked) {
  return absl::NotFoundError(absl::StrCat(
      "arm ", run.title, ": there ", asked.first == asked.last ? "is no " : "are no ",
      ToString(asked), "; ",
      run.recorded ? absl::StrCat("recorded: ", ToString(*run.recorded))
                   : "none is recorded"));
}

// When the first worker begins the first of these steps that it has, on the coordinator's
// clock.
absl::StatusOr<int64_t> Begin(SqliteConnection& connection, const TracedRun& run,
                              const StepRange& steps) {
  std::optional<int64_t> begin;
  ASSIGN_OR_RETURN(
      SqliteStatement row,
      connection.Prepare("SELECT start_ns FROM steps WHERE run = ? AND rank = ? AND "
                         "step BETWEEN ? AND ? ORDER BY step LIMIT 1"));
  for (int rank = 0; rank < run.workers; ++rank) {
    RETURN_IF_ERROR(row.Bind({run.run, int64_t{rank}, steps.first, steps.last}));
    ASSIGN_OR_RETURN(const bool there, row.Next());
    if (!there) continue;
    const int64_t time_ns = run.OfWorker(rank, row.Integer(0));
    begin = std::min(begin.value_or(time_ns), time_ns);
  }
  return begin.value_or(0);
}

// The lowest number of a step that some worker begins at this time or later; at most
// `first`.
absl::StatusOr<int64_t> FirstSince(SqliteConnection& connection, const TracedRun& run,
                                   int64_t begin_ns, int64_t first) {
  ASSIGN_OR_RETURN(
      SqliteStatement row,
      connection.Prepare("SELECT step, start_ns FROM steps WHERE run = ? AND rank = ? "
                         "ORDER BY step DESC"));
  for (int rank = 0; rank < run.workers; ++rank) {
    RETURN_IF_ERROR(row.Bind({run.run, int64_t{rank}}));
    while (true) {
      ASSIGN_OR_RETURN(const bool there, row.Next());
      if (!there || run.OfWorker(rank, row.Integer(1)) < begin_ns) break;
      first = std::min(first, row.Integer(0));
    }
  }
  return first;
}

// What is shown of a run: of these steps those that begin at `zero_ns` or later.
struct Window {
  StepRange steps;
  int64_t zero_ns = 0;  // On the coordinator's clock.
};

// None: no step is recorded.
absl::StatusOr<std::optional<Window>> WindowOf(SqliteConnection& connection,
                                               const TracedRun& run,
                                               const std::optional<StepRange>& asked) {
  if (asked && (!run.recorded || asked->first > run.recorded->last ||
                asked->last < run.recorded->first)) {
    return NoSteps(run, *asked);
  }
  if (!run.recorded) return std::optional<Window>();
  Window window = {.steps = *run.recorded};
  StepRange& steps = window.steps;
  steps.first =
      std::max(steps.first, asked ? asked->first : steps.last - kTracedSteps + 1);
  if (asked) steps.last = std::min(steps.last, asked->last);
  ASSIGN_OR_RETURN(window.zero_ns, Begin(connection, run, steps));
  // Where workers do not keep step, a slow one is at lower numbers in the same time.
  if (!asked && !run.frame.lockstep && steps.first > run.recorded->first) {
    ASSIGN_OR_RETURN(steps.first,
                     FirstSince(connection, run, window.zero_ns, steps.first));
  }
  return window;
}

// Why the trace may lack something.
std::vector<std::string> NotesOn(const TracedRun& run) {
  std::vector<std::string> notes;
  if (!run.outcome) {
    notes.push_back(
        "not finished: it goes on, or was cut off; its last steps may be missing");
  } else if (*run.outcome != "ok") {
    notes.push_back(absl::StrCat("ended with: ", *run.outcome));
  }
  if (!run.recorded) notes.push_back("no step is recorded");
  if (!run.unknown.empty()) {
    notes.push_back(absl::StrCat(
        "names of tensors and arrows are left out, because they are not known: ",
        run.unknown));
  }
  return notes;
}

ordered_json MetadataOf(const TracedRun& run, const std::optional<Window>& window,
                        int64_t arrows_left_out) {
  ordered_json metadata = {{"arm", run.arm},
                           {"seed", run.seed},
                           {"mode", run.mode},
                           {"workers", run.workers},
                           {"servers", run.servers}};
  if (window) {
    metadata["steps"] = {window->steps.first, window->steps.last};
    metadata["steps_recorded"] = {run.recorded->first, run.recorded->last};
    metadata["zero_on_coordinator_clock_ns"] = window->zero_ns;
  }
  metadata["clocks_agree_within_us"] =
      static_cast<double>(run.frame.clocks.error_ns()) / 1000;
  metadata["arrows_left_out"] = arrows_left_out;
  if (const auto notes = NotesOn(run); !notes.empty()) {
    metadata["note"] = absl::StrJoin(notes, "; ");
  }
  ordered_json& buckets = metadata["buckets"] = ordered_json::array();
  for (size_t bucket = 0; bucket < run.buckets.size(); ++bucket) {
    const TracedBucket& traced = run.buckets[bucket];
    ordered_json& row = buckets.emplace_back();
    row["bucket"] = bucket;
    row["bytes"] = traced.bytes;
    if (!traced.algorithm.empty()) row["algorithm"] = traced.algorithm;
    if (!traced.tensors.empty()) row["tensors"] = traced.tensors;
  }
  return metadata;
}

std::string OutPath(const TraceOptions& options, const SqliteConnection& connection) {
  if (!options.out.empty()) return options.out;
  return (std::filesystem::path(connection.path()).parent_path() / "trace.json").string();
}

}  // namespace

absl::StatusOr<StepRange> ParseSteps(const std::string& text) {
  const size_t dash = text.find('-');
  const absl::string_view first = absl::string_view(text).substr(0, dash);
  const absl::string_view last =
      dash == std::string::npos ? first : absl::string_view(text).substr(dash + 1);
  StepRange steps;
  if (!absl::SimpleAtoi(first, &steps.first) || !absl::SimpleAtoi(last, &steps.last) ||
      steps.first < 0 || steps.last < steps.first) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--steps: \"", text, "\" is no range of steps; allowed: one as 40-60, or 40"));
  }
  return steps;
}

absl::Status WriteTrace(const TraceOptions& options, std::ostream* log) {
  ASSIGN_OR_RETURN(const std::unique_ptr<SqliteConnection> connection,
                   OpenRun(options.run));
  ASSIGN_OR_RETURN(const std::vector<TracedRun> runs,
                   ReadTracedRuns(*connection, options.arm, options.seed));
  std::vector<std::optional<Window>> windows;  // Before anything is written.
  for (const TracedRun& run : runs) {
    ASSIGN_OR_RETURN(windows.emplace_back(), WindowOf(*connection, run, options.steps));
  }
  const std::string path = OutPath(options, *connection);
  ASSIGN_OR_RETURN(EventWriter writer, EventWriter::Create(path));
  ordered_json metadata = {{"written_by", "psring trace"}};
  int process = 1;
  int64_t arrow = 1;
  for (size_t i = 0; i < runs.size(); ++i) {
    const TracedRun& run = runs[i];
    const std::optional<Window>& window = windows[i];
    StepEvents events(&run, process, arrow, window ? window->zero_ns : 0, &writer);
    if (window) {
      StepRange range = window->steps;
      // Of a run that was cut off, servers may have recorded more than workers.
      if (range.last == run.recorded->last) range.last = StepRange().last;
      RETURN_IF_ERROR(
          ForEachTracedStep(*connection, run, range,
                            [&](std::span<const StepRecord* const> steps,
                                std::span<const TracedContribution> contributions) {
                              events.Take(steps, contributions);
                              return absl::OkStatus();
                            }));
      if (window->steps.first > run.recorded->first ||
          window->steps.last < run.recorded->last) {
        *log << run.title << ": " << ToString(window->steps) << " of "
             << ToString(*run.recorded)
             << (options.steps ? "" : "; --steps A-B shows others") << std::endl;
      }
    }
    for (const std::string& note : NotesOn(run)) {
      *log << run.title << ": " << note << std::endl;
    }
    metadata["runs"].push_back(MetadataOf(run, window, events.arrows_left_out()));
    process = events.next_process();
    arrow = events.next_arrow();
  }
  const int64_t events = writer.events();
  RETURN_IF_ERROR(writer.Finish(metadata));
  *log << "wrote " << WithThousands(events) << " events, "
       << WithThousands(writer.bytes()) << " bytes, to " << path
       << "; ui.perfetto.dev and chrome://tracing open it" << std::endl;
  return absl::OkStatus();
}

absl::StatusOr<std::string> TellBucketPath(const TraceOptions& options, int64_t bucket,
                                           int64_t step) {
  ASSIGN_OR_RETURN(const std::unique_ptr<SqliteConnection> connection,
                   OpenRun(options.run));
  ASSIGN_OR_RETURN(const std::vector<TracedRun> runs,
                   ReadTracedRuns(*connection, options.arm, options.seed));
  std::vector<std::string> paths;
  for (const TracedRun& run : runs) {
    const StepRange only = {.first = step, .last = step};
    const auto most = static_cast<int64_t>(run.buckets.size()) - 1;
    if (bucket > most) {
      return absl::NotFoundError(
          absl::StrCat("arm ", run.title, ": there is no bucket ", bucket, "; there ",
                       most < 0    ? "are none"
                       : most == 0 ? "is bucket 0 alone"
                                   : absl::StrCat("are buckets 0 to ", most)));
    }
    bool found = false;
    RETURN_IF_ERROR(ForEachTracedStep(
        *connection, run, only,
        [&](std::span<const StepRecord* const> steps,
            std::span<const TracedContribution> contributions) {
          const bool there =
              std::any_of(steps.begin(), steps.end(), [&](const StepRecord* record) {
                return record != nullptr && bucket < record->buckets_size();
              });
          if (there) {
            found = true;
            paths.push_back(
                DescribeBucketPath(run, static_cast<int>(bucket), steps, contributions));
          }
          return absl::OkStatus();
        }));
    if (!found) return NoSteps(run, only);
  }
  return absl::StrJoin(paths, "\n");
}

void AddTraceCommand(CLI::App* app, std::function<absl::Status()>* chosen) {
  struct Options {
    TraceOptions trace;
    std::string steps;
    int64_t bucket = 0;
    int64_t step = 0;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command = app->add_subcommand(
      "trace", "Shows a run's steps, buckets and servers on one time line");
  command->add_option("run", options->trace.run, "Run folder, or its run.db")->required();
  CLI::Option* out = command->add_option(
      "-o", options->trace.out,
      "File for Chrome trace events (default: trace.json beside run.db)");
  command->add_option("--arm", options->trace.arm, "Of this arm alone");
  command->add_option("--seed", options->trace.seed, "Of runs with this seed alone");
  CLI::Option* steps = command->add_option(
      "--steps", options->steps,
      absl::StrCat("Steps A-B (default: the last ", kTracedSteps, " of each arm)"));
  CLI::Option* bucket =
      command
          ->add_option("--bucket", options->bucket,
                       "Prints the way of this bucket as text, and writes no file")
          ->check(CLI::NonNegativeNumber)
          ->excludes(out)
          ->excludes(steps);
  CLI::Option* step = command->add_option("--step", options->step, "The step of --bucket")
                          ->check(CLI::NonNegativeNumber)
                          ->needs(bucket);
  bucket->needs(step);
  command->callback([=] {
    *chosen = [=]() -> absl::Status {
      if (bucket->count() > 0) {
        ASSIGN_OR_RETURN(const std::string text,
                         TellBucketPath(options->trace, options->bucket, options->step));
        std::cout << text << std::flush;
        return absl::OkStatus();
      }
      if (steps->count() > 0) {
        ASSIGN_OR_RETURN(options->trace.steps, ParseSteps(options->steps));
      }
      return WriteTrace(options->trace, &std::cerr);
    };
  });
}

}  // namespace psring
