// Passes with and without CUDA, a driver, GPUs and libraries: what is said must agree.
#include "common/cuda/cuda_support.h"

#include <pthread.h>
#include <signal.h>

#include "common/cuda/cuda_toolkit.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::Each;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

TEST(CudaSupportTest, IsThatOfTheBuild) {
  const CudaBuild build = BuiltWithCuda();
  EXPECT_EQ(build.missing, kCudaMissing);
  EXPECT_EQ(build.toolkit, kCudaVersion);
  EXPECT_EQ(build.architectures, kCudaArchitectures);
  if (build.missing.empty()) {
    EXPECT_THAT(build.toolkit, HasSubstr("."));
    EXPECT_THAT(build.nccl, StartsWith("2."));
    EXPECT_THAT(build.cublas, HasSubstr("."));
  } else {
    EXPECT_THAT(build.toolkit + build.architectures + build.nccl + build.cublas,
                IsEmpty());
  }
}

TEST(CudaSupportTest, EveryLibraryIsThereOrHasAProblem) {
  const CudaMachine machine = FindCuda();
  for (const FoundLibrary& library : {machine.nccl, machine.cublas, machine.cudnn}) {
    EXPECT_EQ(library.problem.empty(), !library.version.empty()) << library.problem;
    EXPECT_EQ(library.problem.empty(), !library.path.empty()) << library.problem;
    if (BuiltWithCuda().missing.empty()) continue;
    EXPECT_EQ(library.problem, BuiltWithCuda().missing);
  }
}

TEST(CudaSupportTest, GpusTakeADriver) {
  const CudaMachine machine = FindCuda();
  EXPECT_EQ(machine.driver, CudaDriver());
  if (machine.driver.empty()) {
    EXPECT_THAT(machine.gpus, IsEmpty());
  } else {
    EXPECT_EQ(machine.gpus.empty(), !machine.no_gpus.empty());
  }
  EXPECT_THAT(machine.gpus, Each(Field(&Gpu::name, Not(IsEmpty()))));
}

TEST(CudaSupportTest, SignalsAreAsBefore) {
  sigset_t only, after;
  sigemptyset(&only);
  sigaddset(&only, SIGUSR2);
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &only, nullptr), 0);
  FindCuda();
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, nullptr, &after), 0);
  EXPECT_EQ(sigismember(&after, SIGUSR2), 1);
  EXPECT_EQ(sigismember(&after, SIGINT), 0);
}

}  // namespace
}  // namespace psring
