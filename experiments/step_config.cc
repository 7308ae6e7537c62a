#include "experiments/step_config.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/contributors.h"
#include "common/schedule.h"
#include "experiments/arm_mode.h"
#include "worker/synthetic_model.h"

namespace psring {
namespace {

// Each is a layer: more are taken for a slip of the pen.
constexpr int64_t kMostBranches = 1000;

constexpr char kMicroBatches[] = "training.micro_batches";
constexpr char kBranches[] = "model.mlp.branches";

absl::Status CheckBranches(const Experiment& experiment, const FieldOrigins& origins) {
  if (!origins.Has(kBranches)) return absl::OkStatus();
  const MlpSettings& mlp = experiment.model().mlp();
  if (mlp.branches() < 1 || mlp.branches() > kMostBranches) {
    return origins.Error(kBranches, absl::StrCat("is ", mlp.branches()),
                         absl::StrCat("1 to ", kMostBranches));
  }
  if (mlp.branches() > 1 && mlp.hidden().empty()) {
    return origins.Error(
        kBranches,
        absl::StrCat("is ", mlp.branches(), ", and there is no hidden layer to be them"),
        "1, or with model.mlp.hidden");
  }
  return absl::OkStatus();
}

// A positive number, or where made-up gradients have to stay exact one that keeps them
// so.
absl::Status CheckMicroBatches(const Experiment& experiment,
                               const FieldOrigins& origins) {
  if (!origins.Has(kMicroBatches)) return absl::OkStatus();
  const int64_t passes = experiment.training().micro_batches();
  if (passes < 1) {
    return origins.Error(kMicroBatches, absl::StrCat("is ", passes), "at least 1");
  }
  if (!experiment.compute().has_emulated()) return absl::OkStatus();
  if (passes <= kMostExactPasses && std::has_single_bit(static_cast<uint64_t>(passes))) {
    return absl::OkStatus();
  }
  return origins.Error(
      kMicroBatches,
      absl::StrCat("is ", passes, ", and sums of emulated gradients would not be exact"),
      absl::StrCat("1, 2, 4, ... ", kMostExactPasses));
}

std::string Samples(int64_t count) {
  return absl::StrCat(count, count == 1 ? " sample" : " samples");
}

// Of an update, before the schedule.
std::string EffectiveLearningRate(const JobSpec& spec, bool rounds) {
  const std::string base =
      absl::StrFormat("%.6g", BaseLearningRate(spec.experiment().training().optimizer()));
  if (rounds) return base;
  switch (spec.arm().parameter_server().stale_updates().scale()) {
    case StaleUpdates::MEAN:
      return absl::StrCat(base, " / ", spec.workers());
    case StaleUpdates::INVERSE_STALENESS:
      return absl::StrCat(base, " / max(1, staleness)");
    default:
      return base;
  }
}

}  // namespace

absl::Status CheckSteps(const Experiment& experiment, const FieldOrigins& origins) {
  const Training& training = experiment.training();
  if (const absl::Status status = CheckBranches(experiment, origins); !status.ok()) {
    return status;
  }
  if (const absl::Status status = CheckMicroBatches(experiment, origins); !status.ok()) {
    return status;
  }
  if (!Training::Uneven_IsValid(training.uneven())) {
    return origins.Error("training.uneven", absl::StrCat("is ", int{training.uneven()}),
                         ValueNames(*Training::Uneven_descriptor()));
  }
  if (training.uneven() == Training::JOIN && experiment.compute().has_emulated()) {
    return origins.Error("training.uneven",
                         "is JOIN, and with emulated compute there are no samples",
                         "DROP");
  }
  if (!Training::UnusedParameters_IsValid(training.unused_parameters())) {
    return origins.Error("training.unused_parameters",
                         absl::StrCat("is ", int{training.unused_parameters()}),
                         ValueNames(*Training::UnusedParameters_descriptor()));
  }
  return absl::OkStatus();
}

absl::Status CheckStepsOfArm(const Experiment& experiment, const Arm& arm,
                             int64_t workers, const FieldOrigins& origins) {
  const Training& training = experiment.training();
  const int64_t rows = training.global_batch() / workers;
  const int64_t passes = std::max<int64_t>(1, training.micro_batches());
  if (rows % passes != 0) {
    return origins.Error(
        kMicroBatches,
        absl::StrCat("the ", Samples(rows), " of a worker of arm '", arm.name(),
                     "' cannot be divided among ", passes, " passes"),
        absl::StrCat("divisors of ", rows));
  }
  const ParameterServerMode& servers = arm.parameter_server();
  const bool in_sync = servers.has_sync() || servers.consistency_case() ==
                                                 ParameterServerMode::CONSISTENCY_NOT_SET;
  if (training.uneven() == Training::JOIN && !in_sync) {
    return origins.Error("training.uneven",
                         absl::StrCat("is JOIN, and the servers of arm '", arm.name(),
                                      "' do not wait for all workers"),
                         "DROP, or arms of ring, local, and servers in sync alone");
  }
  if (training.uneven() == Training::JOIN && arm.wire().has_top_k()) {
    return origins.Error(
        "training.uneven",
        absl::StrCat("is JOIN, and workers of arm '", arm.name(),
                     "' without samples would send what top_k has left out before"),
        "DROP, or another wire");
  }
  return absl::OkStatus();
}

void FillStepDefaults(Experiment* experiment) {
  Training* const training = experiment->mutable_training();
  if (training->micro_batches() == 0) training->set_micro_batches(1);
  if (experiment->model().has_mlp() && experiment->model().mlp().branches() == 0) {
    experiment->mutable_model()->mutable_mlp()->set_branches(1);
  }
}

std::string DescribeReduction(const JobSpec& spec) {
  const Training& training = spec.experiment().training();
  const std::optional<ConsistencyPromise> promise = PromiseOf(spec);
  const bool rounds = !promise || promise->rounds;
  const int together = promise ? promise->contributions_per_update : spec.workers();
  std::string text =
      !rounds ? "none, a worker's gradient is an update of its own"
      : together < spec.workers()
          ? absl::StrCat("mean over the first ", together, " of ", spec.workers(),
                         " workers")
          : absl::StrCat("mean over ", together, together == 1 ? " worker" : " workers");
  absl::StrAppend(&text, rounds ? " of " : ", of ",
                  Samples(training.global_batch() / spec.workers()), " each");
  if (training.micro_batches() > 1) {
    absl::StrAppend(&text, " in ", training.micro_batches(), " passes");
  }
  absl::StrAppend(&text, ", global batch ", training.global_batch(),
                  ", effective learning rate ", EffectiveLearningRate(spec, rounds));
  return text;
}

std::string DescribeUneven(const JobSpec& spec, int64_t train_count) {
  if (train_count == 0 || spec.experiment().compute().has_emulated()) return "";
  const Training& training = spec.experiment().training();
  const int64_t batch = training.global_batch();
  const bool join = training.uneven() == Training::JOIN;
  const EpochPlan plan = PlanEpoch(train_count, batch, spec.workers(), join);
  if (train_count % batch == 0) return "";
  if (plan.steps > train_count / batch) {
    return absl::StrCat("join, the last step of an epoch has ", plan.last_contributors,
                        " of ", spec.workers(), " workers, and its mean is over them, ",
                        Samples(plan.left_out), " left out");
  }
  return absl::StrCat(
      join ? "join, but what is left of an epoch is no worker's whole part: " : "drop, ",
      Samples(plan.left_out), " of each epoch left out");
}

}  // namespace psring
