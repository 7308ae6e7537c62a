#include "experiments/device_check.h"

#include <string>
#include <vector>

#include "common/errors.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::Eq;

const CudaBuild kBuild = {.toolkit = "13.0"};

JobSpec Ring(int workers, Experiment::Device device = Experiment::CUDA) {
  JobSpec spec;
  spec.set_workers(workers);
  spec.mutable_arm()->mutable_ring();
  spec.mutable_experiment()->set_device(device);
  return spec;
}

JobSpec Servers(int workers) {
  JobSpec spec = Ring(workers);
  spec.mutable_arm()->mutable_parameter_server();
  return spec;
}

CudaMachine TwoGpus() {
  const Gpu gpu = {.name = "NVIDIA H200", .major = 9};
  return {.driver = "13.0", .gpus = {gpu, gpu}};
}

CudaMachine NotToBeLookedAt() {
  ADD_FAILURE() << "nobody asked for GPUs";
  return {};
}

void ExpectRefused(const absl::Status& status, ExitCode code, const std::string& why) {
  EXPECT_EQ(status.message(), "device: is CUDA, and " + why + "; allowed: CPU");
  EXPECT_EQ(ExitCodeOf(status), code) << status;
}

TEST(DeviceCheckTest, TheCpuIsAlwaysThere) {
  EXPECT_OK(CheckDevice({Ring(2, Experiment::CPU)}, /*external=*/false,
                        {.missing = "no toolkit"}, NotToBeLookedAt));
}

TEST(DeviceCheckTest, ABuildWithoutCuda) {
  for (const bool external : {false, true}) {
    ExpectRefused(
        CheckDevice({Ring(2)}, external, {.missing = "no toolkit"}, NotToBeLookedAt),
        ExitCode::kUsage, "this program was built without CUDA: no toolkit");
  }
}

TEST(DeviceCheckTest, AMachineWithoutADriver) {
  ExpectRefused(
      CheckDevice({Ring(2)}, /*external=*/false, kBuild, [] { return CudaMachine(); }),
      ExitCode::kSkipped, "this machine has no NVIDIA driver");
}

TEST(DeviceCheckTest, TheArmWithMostWorkersCounts) {
  ExpectRefused(CheckDevice({Servers(1), Servers(3), Servers(2)}, /*external=*/false,
                            kBuild, TwoGpus),
                ExitCode::kSkipped,
                "this machine has 2 GPUs, and 3 workers are to have one each");
}

TEST(DeviceCheckTest, RingsTakeNcclAndServersDoNot) {
  const auto without_nccl = [] {
    CudaMachine machine = TwoGpus();
    machine.nccl.problem = "NCCL cannot be used";
    return machine;
  };
  ExpectRefused(
      CheckDevice({Servers(2), Ring(2)}, /*external=*/false, kBuild, without_nccl),
      ExitCode::kSkipped, "NCCL cannot be used");
  for (const JobSpec& spec : {Servers(2), Ring(1)}) {
    ExpectRefused(CheckDevice({spec}, /*external=*/false, kBuild, without_nccl),
                  ExitCode::kUsage, "training on GPUs is not in this build");
  }
}

TEST(DeviceCheckTest, WhereAllIsThereThisBuildStillDoesNotTrainOnIt) {
  ExpectRefused(CheckDevice({Ring(2)}, /*external=*/false, kBuild, TwoGpus),
                ExitCode::kUsage, "training on GPUs is not in this build");
}

TEST(DeviceCheckTest, ExternalProcessesAreOnOtherMachines) {
  ExpectRefused(CheckDevice({Ring(2)}, /*external=*/true, kBuild, NotToBeLookedAt),
                ExitCode::kUsage, "training on GPUs is not in this build");
}

}  // namespace
}  // namespace psring
