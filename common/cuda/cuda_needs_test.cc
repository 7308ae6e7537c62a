#include "common/cuda/cuda_needs.h"

#include "common/errors.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::HasSubstr;

const CudaBuild kBuild = {.architectures = "sm_80, sm_90"};
const Gpu kH200 = {.name = "NVIDIA H200", .major = 9, .minor = 0};

CudaMachine TwoGpus() { return {.driver = "13.0", .gpus = {kH200, kH200}}; }

// That the machine lacks something is no failure of psring: exit code 77.
void ExpectSkipped(const CudaMachine& machine, const CudaNeeds& needs,
                   const std::string& message) {
  const absl::Status status = CheckCudaMachine(kBuild, machine, needs);
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(message)));
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kSkipped) << message;
}

TEST(CudaNeedsTest, AllIsThere) {
  EXPECT_OK(CheckCudaBuild(kBuild));
  EXPECT_OK(CheckCudaMachine(kBuild, TwoGpus(), {.gpus = 2, .nccl = true}));
}

TEST(CudaNeedsTest, ABuildWithoutCudaIsWrongUsage) {
  const absl::Status status =
      CheckCudaBuild({.missing = "there is no CUDA toolkit in /x"});
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               "this program was built without CUDA: there is no CUDA "
                               "toolkit in /x"));
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);
}

TEST(CudaNeedsTest, DriverAndGpus) {
  ExpectSkipped({}, {}, "this machine has no NVIDIA driver");
  ExpectSkipped({.driver = "12.4", .no_gpus = "driver too old"}, {},
                "this machine has no GPU that can be used: driver too old");
  ExpectSkipped({.driver = "13.0", .gpus = {kH200}}, {.gpus = 2},
                "this machine has 1 GPU, and 2 workers are to have one each");
  ExpectSkipped(TwoGpus(), {.gpus = 3},
                "this machine has 2 GPUs, and 3 workers are to have one each");
}

TEST(CudaNeedsTest, AGpuOlderThanTheKernelsCountsWhereAWorkerHasIt) {
  CudaMachine machine = TwoGpus();
  machine.gpus[1] = {.name = "Tesla V100", .major = 7, .minor = 0};
  EXPECT_OK(CheckCudaMachine(kBuild, machine, {.gpus = 1}));
  ExpectSkipped(machine, {.gpus = 2},
                "GPU 1 of this machine (Tesla V100) has compute capability 7.0, and "
                "kernels are built for sm_80, sm_90");
}

TEST(CudaNeedsTest, Libraries) {
  CudaMachine machine = TwoGpus();
  machine.nccl.problem = "NCCL cannot be used: x";
  EXPECT_OK(CheckCudaMachine(kBuild, machine, {.gpus = 2, .nccl = false}));
  ExpectSkipped(machine, {.gpus = 2, .nccl = true}, "NCCL cannot be used: x");
  machine = TwoGpus();
  machine.cublas.problem = "cuBLAS cannot be used: x";
  ExpectSkipped(machine, {}, "cuBLAS cannot be used: x");
}

}  // namespace
}  // namespace psring
