#include "experiments/config.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/contributors.h"
#include "common/liveness.h"
#include "common/status_macros.h"
#include "experiments/arm_mode.h"
#include "experiments/bucket_defaults.h"
#include "experiments/checkpoint_config.h"
#include "experiments/compute_config.h"
#include "experiments/config_check.h"
#include "experiments/config_text.h"
#include "experiments/expectations.h"
#include "experiments/hosts/host_settings.h"
#include "experiments/optimizer_config.h"
#include "experiments/ring_config.h"
#include "experiments/step_config.h"
#include "experiments/wire_config.h"
#include "google/protobuf/text_format.h"
#include "worker/data_set.h"

namespace psring {
namespace {

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is a folder; allowed: a file in text format"));
  }
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) {
    return std::filesystem::exists(path, ignored)
               ? absl::InvalidArgumentError(absl::StrCat(path, ": cannot be opened"))
               : absl::NotFoundError(absl::StrCat(path, ": no such file"));
  }
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void FillBucketDefaults(Buckets* buckets) {
  if (buckets->cap_bytes() == 0) buckets->set_cap_bytes(kDefaultCapBytes);
  if (buckets->first_cap_bytes() == 0) {
    buckets->set_first_cap_bytes(std::min(kDefaultFirstCapBytes, buckets->cap_bytes()));
  }
  if (!buckets->has_overlap()) buckets->set_overlap(true);
}

void FillDefaults(Experiment* experiment) {
  if (experiment->data().kind_case() == DataSettings::KIND_NOT_SET) {
    experiment->clear_data();  // From here on, data that are there are of some kind.
  } else if (experiment->data().fashion_mnist().directory().empty()) {
    experiment->mutable_data()->mutable_fashion_mnist()->set_directory(
        kFashionMnistDirectory);
  }
  FillComputeDefaults(experiment);
  FillStepDefaults(experiment);
  FillOptimizerDefaults(experiment->mutable_training()->mutable_optimizer());
  Training* training = experiment->mutable_training();
  if (training->seeds() == 0) training->set_seeds(1);
  FillBucketDefaults(experiment->mutable_buckets());
  if (experiment->cluster().has_hosts()) {
    FillHostDefaults(experiment->mutable_cluster()->mutable_hosts());
  }
  if (experiment->has_checkpoint()) {
    FillCheckpointDefaults(experiment->mutable_checkpoint());
  }
  Liveness* liveness = experiment->mutable_liveness();
  const LivenessSettings settings = SettingsOf(*liveness);
  liveness->set_heartbeat_seconds(absl::ToDoubleSeconds(settings.heartbeat));
  liveness->set_dead_seconds(absl::ToDoubleSeconds(settings.dead));
  liveness->set_stall_seconds(absl::ToDoubleSeconds(settings.stall));
  for (Arm& arm : *experiment->mutable_arms()) {
    if (arm.has_parameter_server() && arm.parameter_server().consistency_case() ==
                                          ParameterServerMode::CONSISTENCY_NOT_SET) {
      arm.mutable_parameter_server()->mutable_sync();
    }
    if (arm.has_optimizer()) FillOptimizerDefaults(arm.mutable_optimizer());
    if (arm.has_buckets()) FillBucketDefaults(arm.mutable_buckets());
    FillWireDefault(&arm);
    if (arm.has_ring()) {
      FillRingDefaults(ResolveCluster(*experiment, arm).workers(), arm.mutable_ring());
    }
    if (arm.cluster().has_hosts()) {
      FillHostDefaults(arm.mutable_cluster()->mutable_hosts());
    }
  }
}

}  // namespace

absl::StatusOr<Experiment> LoadExperiment(const std::string& path,
                                          const std::vector<std::string>& overrides) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  Experiment experiment;
  FieldOrigins origins(path);
  RETURN_IF_ERROR(ReadText(text, &experiment, &origins));
  for (const std::string& assignment : overrides) {
    RETURN_IF_ERROR(ApplyOverride(assignment, &experiment, &origins));
  }
  RETURN_IF_ERROR(CheckExperiment(experiment, origins));
  RETURN_IF_ERROR(CheckExpectationSettings(experiment, origins));
  FillDefaults(&experiment);
  return experiment;
}

std::string PrintExperiment(const Experiment& experiment) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(experiment, &text);
  return text;
}

absl::Status CheckAgainstData(const Experiment& experiment, int64_t train_count) {
  if (!experiment.has_data()) return absl::OkStatus();
  const Training& training = experiment.training();
  if (training.global_batch() > train_count) {
    return absl::InvalidArgumentError(
        absl::StrCat("training.global_batch: is ", training.global_batch(),
                     ", more than the training set has; allowed: at most ", train_count));
  }
  const int64_t steps_per_epoch = train_count / training.global_batch() +
                                  (training.uneven() == Training::JOIN ? 1 : 0);
  const int64_t most_epochs = kMostSteps / steps_per_epoch;
  if (training.epochs() > most_epochs) {
    return absl::InvalidArgumentError(absl::StrCat(
        "training.epochs: is ", training.epochs(), "; allowed: at most ", most_epochs));
  }
  return absl::OkStatus();
}

absl::StatusOr<JobSpec> ResolveArm(const Experiment& experiment, const Arm& arm,
                                   int64_t train_count) {
  RETURN_IF_ERROR(CheckAgainstData(experiment, train_count));
  const Training& training = experiment.training();
  const Cluster cluster = ResolveCluster(experiment, arm);
  JobSpec spec;
  spec.set_job(absl::StrCat(experiment.name(), "/", arm.name()));
  *spec.mutable_experiment() = experiment;
  *spec.mutable_arm() = arm;
  spec.set_workers(static_cast<int32_t>(cluster.workers()));
  spec.set_servers(static_cast<int32_t>(cluster.servers()));
  const EpochPlan epoch = PlanEpoch(train_count, training.global_batch(), spec.workers(),
                                    /*join=*/training.uneven() == Training::JOIN);
  if (experiment.has_data() && !experiment.compute().has_emulated()) {
    spec.set_steps_per_epoch(epoch.steps);
    spec.set_last_contributors(epoch.last_contributors);
  }
  spec.set_steps(training.has_steps() ? training.steps()
                                      : training.epochs() * epoch.steps);
  if (arm.has_optimizer()) {
    *spec.mutable_experiment()->mutable_training()->mutable_optimizer() = arm.optimizer();
  }
  if (arm.has_buckets()) *spec.mutable_experiment()->mutable_buckets() = arm.buckets();
  const std::optional<ConsistencyPromise> promise = PromiseOf(spec);
  spec.set_contributions_per_update(promise ? promise->contributions_per_update
                                            : spec.workers());
  return spec;
}

std::vector<JobSpec> RunsOf(const JobSpec& arm) {
  const int64_t seeds = arm.experiment().training().seeds();
  std::vector<JobSpec> runs;
  for (int64_t i = 0; i < seeds; ++i) {
    JobSpec& run = runs.emplace_back(arm);
    Training& training = *run.mutable_experiment()->mutable_training();
    training.set_seed(training.seed() + i);
    training.set_seeds(1);
    if (seeds > 1) run.set_job(absl::StrCat(run.job(), "/seed-", training.seed()));
  }
  return runs;
}

}  // namespace psring
