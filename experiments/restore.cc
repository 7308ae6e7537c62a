#include "experiments/restore.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <numeric>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/checkpoint.h"
#include "common/job_plan.h"
#include "common/status_macros.h"
#include "experiments/arm_mode.h"
#include "google/protobuf/util/message_differencer.h"
#include "proto/experiment.pb.h"

namespace psring {
namespace {

namespace fs = std::filesystem;

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::string Absolute(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::weakly_canonical(path, error);
  std::string text = error ? path : absolute.string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}

// A whole one: opened, and every byte checked.
absl::StatusOr<Checkpoint> OpenWhole(const std::string& folder) {
  ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::Open(folder));
  RETURN_IF_ERROR(checkpoint.Verify());
  return checkpoint;
}

// Candidates, the newest first.
absl::StatusOr<std::vector<std::string>> Candidates(const std::string& from,
                                                    const std::string& name) {
  std::string arm_folder = absl::StrCat(from, "/checkpoints/", name);
  std::vector<std::string> folders;
  int64_t last = std::numeric_limits<int64_t>::max();
  if (Exists(absl::StrCat(from, "/manifest"))) {
    // The others are those before it.
    folders.push_back(from);
    arm_folder = fs::path(from).parent_path().string();
    for (const int64_t step : CheckpointSteps(arm_folder)) {
      if (CheckpointFolder(arm_folder, step) == from) last = step - 1;
    }
    if (last == std::numeric_limits<int64_t>::max()) return folders;
  } else if (!CheckpointSteps(from).empty()) {
    arm_folder = from;
  } else if (CheckpointSteps(arm_folder).empty()) {
    return absl::NotFoundError(
        absl::StrCat("--restore: there is no checkpoint in ", from, " or in ", arm_folder,
                     "; allowed: the folder of a run, or of a checkpoint"));
  }
  std::vector<int64_t> steps = CheckpointSteps(arm_folder);
  std::reverse(steps.begin(), steps.end());
  for (const int64_t step : steps) {
    if (step <= last) folders.push_back(CheckpointFolder(arm_folder, step));
  }
  return folders;
}

absl::Status Differs(const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("--restore: the checkpoint does not fit: ", what,
                   "; allowed: the model, data, optimizer, seed, batch and workers of "
                   "the checkpoint"));
}

// Differences of two messages as one line; empty where there are none.
std::string Difference(const google::protobuf::Message& checkpoint,
                       const google::protobuf::Message& now) {
  google::protobuf::util::MessageDifferencer differencer;
  std::string report;
  differencer.ReportDifferencesToString(&report);
  if (differencer.Compare(checkpoint, now)) return "";
  while (!report.empty() && report.back() == '\n') report.pop_back();
  return absl::StrReplaceAll(report, {{"\n", ", "}});
}

// With what a cosine without steps of its own means in that job: to the end of the run.
Optimizer ResolvedOptimizer(const JobSpec& spec) {
  Optimizer optimizer = spec.experiment().training().optimizer();
  Schedule* const schedule = optimizer.mutable_schedule();
  if (schedule->has_cosine() && schedule->cosine().steps() == 0) {
    schedule->mutable_cosine()->set_steps(spec.steps() - schedule->warmup_steps());
  }
  return optimizer;
}

absl::Status CheckSame(const JobSpec& checkpoint, const JobSpec& now) {
  if (checkpoint.workers() != now.workers()) {
    return Differs(absl::StrCat("it is of ", checkpoint.workers(), " workers, arm ",
                                now.arm().name(), " has ", now.workers()));
  }
  const auto check = [](const char* what, const google::protobuf::Message& before,
                        const google::protobuf::Message& after) {
    const std::string difference = Difference(before, after);
    if (difference.empty()) return absl::OkStatus();
    return Differs(absl::StrCat(what, ": ", difference));
  };
  const Experiment& before = checkpoint.experiment();
  const Experiment& after = now.experiment();
  RETURN_IF_ERROR(check("model", before.model(), after.model()));
  RETURN_IF_ERROR(check("data", before.data(), after.data()));
  RETURN_IF_ERROR(check("compute", before.compute(), after.compute()));
  RETURN_IF_ERROR(
      check("optimizer", ResolvedOptimizer(checkpoint), ResolvedOptimizer(now)));
  // What decides which samples a step is made of, and nothing else of the training.
  const auto sampling = [](const Training& training) {
    Training same;
    same.set_global_batch(training.global_batch());
    same.set_seed(training.seed());
    same.set_micro_batches(training.micro_batches());
    same.set_uneven(training.uneven());
    return same;
  };
  RETURN_IF_ERROR(
      check("training", sampling(before.training()), sampling(after.training())));
  JobSpec tensors_before, tensors_after;
  *tensors_before.mutable_tensors() = checkpoint.tensors();
  *tensors_after.mutable_tensors() = now.tensors();
  return check("layout", tensors_before, tensors_after);
}

}  // namespace

absl::StatusOr<Restored> Continue(const CheckpointManifest& manifest,
                                  int64_t lowest_version, const JobSpec& spec) {
  RETURN_IF_ERROR(CheckSame(manifest.spec(), spec));
  if (spec.arm().parameter_server().has_fixed_delay()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--restore: arm ", spec.arm().name(),
        " has fixed_delay, whose older versions are in no checkpoint; allowed: another "
        "mode"));
  }
  if (manifest.next_steps_size() != spec.workers()) {
    return absl::DataLossError(absl::StrCat("the checkpoint's manifest has steps of ",
                                            manifest.next_steps_size(), " workers"));
  }
  Restored restored;
  restored.set_step(manifest.step());
  *restored.mutable_next_steps() = manifest.next_steps();
  const auto& next = restored.next_steps();
  const int64_t made = std::accumulate(next.begin(), next.end(), int64_t{0});
  const auto [least, most] = std::minmax_element(next.begin(), next.end());
  const std::string& arm = spec.arm().name();
  if (InLockstep(spec) && *least != *most) {
    return absl::InvalidArgumentError(
        absl::StrCat("--restore: the checkpoint's workers have made ", *least, " to ",
                     *most, " steps, and those of arm ", arm,
                     " keep step; allowed: an arm in which they need not"));
  }
  // Whoever is that far ahead could not pull before it has begun.
  if (const auto promise = PromiseOf(spec);
      promise && promise->clock_lag && *most - *least > *promise->clock_lag) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--restore: the checkpoint's workers have made ", *least, " to ", *most,
        " steps, and those of arm ", arm, " are at most ", *promise->clock_lag,
        " apart; allowed: bounded.bound of at least ", *most - *least, ", or async"));
  }
  // Every worker begins with a step before it hears how many there are.
  const int64_t all = spec.workers() * spec.steps();
  if (made + spec.workers() > all || (InLockstep(spec) && *most >= spec.steps())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--restore: the checkpoint is of step ", manifest.step(), ", and arm ", arm,
        " has ", spec.steps(), " steps; allowed: training.steps of at least ",
        std::max((made + 2 * spec.workers() - 1) / spec.workers(),
                 InLockstep(spec) ? *most + 1 : int64_t{0})));
  }
  // Where an update is made of another number of contributions, there have been as many
  // as would have made them.
  const int64_t per_update = std::max(1, spec.contributions_per_update());
  const bool same = per_update == manifest.spec().contributions_per_update();
  restored.set_version(InLockstep(spec) ? *least
                       : same           ? lowest_version
                                        : made / per_update);
  return restored;
}

absl::Status Restore(const std::string& from, const std::string& name, bool previous,
                     JobSpec* spec, std::string* warning) {
  ASSIGN_OR_RETURN(const std::vector<std::string> folders,
                   Candidates(Absolute(from), name));
  absl::StatusOr<Checkpoint> checkpoint = OpenWhole(folders.front());
  std::string folder = folders.front();
  if (!checkpoint.ok()) {
    const absl::Status damage = checkpoint.status();
    for (size_t older = 1; older < folders.size() && !checkpoint.ok(); ++older) {
      folder = folders[older];
      checkpoint = OpenWhole(folder);
    }
    if (!checkpoint.ok()) {
      return absl::Status(
          damage.code(),
          absl::StrCat(damage.message(), "; there is no whole checkpoint before it"));
    }
    if (!previous) {
      return absl::Status(
          damage.code(),
          absl::StrCat(damage.message(), "; the one before, ", folder,
                       ", is whole: --restore-previous continues from it"));
    }
    *warning =
        absl::StrCat(damage.message(), "; continues from the one before, ", folder);
  }
  ASSIGN_OR_RETURN(Restored restored,
                   Continue(checkpoint->manifest(), checkpoint->lowest_version(), *spec));
  restored.set_folder(folder);
  *spec->mutable_restored() = std::move(restored);
  return absl::OkStatus();
}

}  // namespace psring
