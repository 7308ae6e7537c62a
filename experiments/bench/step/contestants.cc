#include "experiments/bench/step/contestants.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "glog/logging.h"

namespace psring {
namespace {

bool Has(const std::vector<std::string>& values, const char* value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

void SetMode(const StepBenchOptions& options, const StepContestant& contestant,
             Experiment* experiment, Arm* arm) {
  if (contestant.arm == "local") {
    arm->mutable_local();
  } else if (contestant.arm == "servers") {
    arm->mutable_parameter_server();
    experiment->mutable_cluster()->set_servers(options.servers);
  } else {
    RingMode::Transport transport;
    CHECK(RingMode::Transport_Parse(absl::AsciiStrToUpper(contestant.transport),
                                    &transport));
    arm->mutable_ring()->set_transport(transport);
  }
}

}  // namespace

std::string StepContestant::name() const {
  std::vector<std::string> parts = {peer, arm};
  if (!transport.empty()) parts.push_back(transport);
  if (cap_bytes) parts.push_back(absl::StrCat(*cap_bytes));
  return absl::StrJoin(parts, "-");
}

std::vector<StepContestant> StepContestants(const StepBenchOptions& options,
                                            const StepSettings& settings) {
  std::vector<StepContestant> contestants;
  bool alone = false;
  bool together = false;
  for (const std::string& arm : options.arms) {
    if (arm == "local") {
      contestants.push_back({"psring", "local", "", 1, std::nullopt});
      alone = true;
      continue;
    }
    (options.ranks > 1 ? together : alone) = true;
    const std::vector<std::string> servers = {"grpc"};
    for (const std::string& transport : arm == "ring" ? options.transports : servers) {
      for (const int64_t cap : settings.caps) {
        contestants.push_back({"psring", arm, transport, options.ranks, cap});
      }
    }
  }
  if (!Has(options.against, "pytorch")) return contestants;
  if (together) {
    std::vector<int64_t> caps = {kPytorchDefaultCap};
    for (const int64_t cap : settings.caps) {
      if (cap != kPytorchDefaultCap) caps.push_back(cap);
    }
    for (const int64_t cap : caps) {
      contestants.push_back({"pytorch", "ddp", "tcp", options.ranks, cap});
    }
  }
  if (alone) contestants.push_back({"pytorch", "local", "", 1, std::nullopt});
  return contestants;
}

std::optional<int> StepReferenceOf(const std::vector<StepContestant>& contestants,
                                   int index) {
  for (int i = 0; i < static_cast<int>(contestants.size()); ++i) {
    if (contestants[i].peer != "psring" ||
        contestants[i].ranks != contestants[index].ranks) {
      continue;
    }
    return i == index ? std::nullopt : std::optional(i);
  }
  return std::nullopt;
}

int64_t StepsOfRound(const StepBenchOptions& options) {
  return int64_t{options.warm_up} + options.iterations + 1;
}

Experiment StepExperiment(const StepBenchOptions& options, const StepSettings& settings,
                          const StepContestant& contestant, const std::string& data) {
  Experiment experiment;
  experiment.set_name("bench_step");
  MlpSettings* const mlp = experiment.mutable_model()->mutable_mlp();
  for (size_t i = 1; i + 1 < settings.widths.size(); ++i) {
    mlp->add_hidden(settings.widths[i]);
  }
  experiment.mutable_data()->mutable_fashion_mnist()->set_directory(data);
  Training* const training = experiment.mutable_training();
  training->set_steps(StepsOfRound(options));
  training->set_global_batch(options.batch * contestant.ranks);
  training->set_seed(1);
  training->set_seeds(options.rounds);
  Sgd* const sgd = training->mutable_optimizer()->mutable_sgd();
  sgd->set_learning_rate(kStepLearningRate);
  sgd->set_momentum(kStepMomentum);
  experiment.mutable_cluster()->set_workers(contestant.ranks);
  if (contestant.cap_bytes) {
    experiment.mutable_buckets()->set_cap_bytes(*contestant.cap_bytes);
  }
  Arm* const arm = experiment.add_arms();
  arm->set_name(contestant.name());
  SetMode(options, contestant, &experiment, arm);
  return experiment;
}

}  // namespace psring
