#include "experiments/device_config.h"

#include "absl/strings/str_cat.h"

namespace psring {

absl::Status CheckDeviceSettings(const Experiment& experiment,
                                 const FieldOrigins& origins) {
  if (!Experiment::Device_IsValid(experiment.device())) {
    return origins.Error("device", absl::StrCat("is ", int{experiment.device()}),
                         ValueNames(*Experiment::Device_descriptor()));
  }
  if (experiment.device() == Experiment::CPU) return absl::OkStatus();
  if (experiment.compute().has_emulated()) {
    return origins.Error("device", "is CUDA, and emulated compute computes nothing",
                         "CPU with compute { emulated { } }");
  }
  for (int i = 0; i < experiment.arms_size(); ++i) {
    if (experiment.arms(i).ring().transport() != RingMode::SHARED_MEMORY) continue;
    return origins.Error(absl::StrCat("arms[", i, "].ring.transport"),
                         "is SHARED_MEMORY, which is processors' alone, and device is "
                         "CUDA",
                         "TCP, GRPC");
  }
  return absl::OkStatus();
}

std::string DescribeDevice(const Experiment& experiment) {
  return experiment.device() == Experiment::CUDA ? "CUDA, a GPU for each worker" : "CPU";
}

}  // namespace psring
