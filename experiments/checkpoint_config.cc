#include "experiments/checkpoint_config.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace psring {
namespace {

constexpr int64_t kKeep = 2;
constexpr int64_t kMostKept = 1000;

}  // namespace

absl::Status CheckCheckpoint(const Experiment& experiment, const FieldOrigins& origins) {
  if (!experiment.has_checkpoint()) return absl::OkStatus();
  const CheckpointSettings& checkpoint = experiment.checkpoint();
  if (checkpoint.every_steps() < 0) {
    return origins.Error("checkpoint.every_steps",
                         absl::StrCat("is ", checkpoint.every_steps()),
                         "at least 1, or 0: only when a signal asks for one");
  }
  if (origins.Has("checkpoint.keep") &&
      (checkpoint.keep() < 1 || checkpoint.keep() > kMostKept)) {
    return origins.Error("checkpoint.keep", absl::StrCat("is ", checkpoint.keep()),
                         absl::StrCat("1 to ", kMostKept));
  }
  for (const Arm& arm : experiment.arms()) {
    const std::string allowed =
        "another mode or wire, or an experiment without `checkpoint`";
    if (arm.parameter_server().has_fixed_delay()) {
      return origins.Error("checkpoint",
                           absl::StrCat("is set, and arm '", arm.name(),
                                        "' has fixed_delay, whose older versions are in "
                                        "no checkpoint"),
                           allowed);
    }
    if (arm.wire().has_top_k()) {
      return origins.Error("checkpoint",
                           absl::StrCat("is set, and arm '", arm.name(),
                                        "' has a top_k wire, whose left-out gradients "
                                        "are in no checkpoint"),
                           allowed);
    }
  }
  return absl::OkStatus();
}

void FillCheckpointDefaults(CheckpointSettings* checkpoint) {
  if (checkpoint->keep() == 0) checkpoint->set_keep(kKeep);
}

}  // namespace psring
