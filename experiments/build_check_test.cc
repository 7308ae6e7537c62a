#include "experiments/build_check.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;
using testing::Not;

const CudaBuild kBuild = {.toolkit = "13.0",
                          .architectures = "sm_80, sm_90",
                          .nccl = "2.28.9",
                          .cublas = "13.1.0"};

auto Part(const std::string& name, const std::string& built_with,
          const std::string& found) {
  return AllOf(Field(&BuildPart::name, name), Field(&BuildPart::built_with, built_with),
               Field(&BuildPart::found, found));
}

TEST(BuildCheckTest, AMachineWithGpus) {
  CudaMachine machine = {.driver = "13.1"};
  machine.gpus = {{.name = "NVIDIA H200", .major = 9, .memory_bytes = int64_t{3} << 30},
                  {.name = "NVIDIA A100", .major = 8, .memory_bytes = int64_t{2} << 30}};
  machine.cublas = {.version = "13.2.0", .path = "/a/libcublas.so.13"};
  machine.nccl = {.version = "2.29.1", .path = "/a/libnccl.so.2"};
  machine.cudnn = {.problem = "cuDNN cannot be used: x"};
  EXPECT_THAT(
      CudaParts(kBuild, machine),
      ElementsAre(
          Part("CUDA", "13.0: sm_80, sm_90", ""),
          Part("NVIDIA driver", "", "for CUDA 13.1"),
          Part("GPUs", "", "2: NVIDIA H200 (9.0, 3072 MiB), NVIDIA A100 (8.0, 2048 MiB)"),
          Part("cuBLAS", "13.1.0", "13.2.0, /a/libcublas.so.13"),
          Part("NCCL", "2.28.9", "2.29.1, /a/libnccl.so.2"),
          Part("cuDNN", "not used", "no: cuDNN cannot be used: x"),
          Part("training on GPUs", "no", "")));
}

TEST(BuildCheckTest, AMachineWithoutGpus) {
  EXPECT_THAT(CudaParts(kBuild, {}), AllOf(Contains(Part("NVIDIA driver", "", "none")),
                                           Contains(Part("GPUs", "", "none"))));
  EXPECT_THAT(CudaParts(kBuild, {.driver = "12.0", .no_gpus = "driver too old"}),
              Contains(Part("GPUs", "", "none: driver too old")));
}

TEST(BuildCheckTest, ABuildWithoutCudaHasNothingToLookFor) {
  EXPECT_THAT(CudaParts({.missing = "no toolkit"}, {}),
              ElementsAre(Part("CUDA", "no: no toolkit", "")));
}

TEST(BuildCheckTest, EveryPartOfThisProgramHasAnAnswer) {
  const std::vector<BuildPart> parts = CheckBuild();
  for (const BuildPart& part : parts) {
    EXPECT_THAT(part.built_with + part.found, Not(IsEmpty())) << part.name;
  }
  EXPECT_THAT(parts, Contains(Field(&BuildPart::name, "CUDA")));
  EXPECT_THAT(parts, Contains(Field(&BuildPart::name, "gRPC")));
}

TEST(BuildCheckTest, Table) {
  EXPECT_EQ(BuildTable({{"a", "1.2", "1.3, /x"},
                        {"longer name", "", "none"},
                        {"b", "no: a long reason for it", ""}}),
            "  part         built with  found here\n"
            "  a            1.2         1.3, /x\n"
            "  longer name              none\n"
            "  b            no: a long reason for it\n");
}

}  // namespace
}  // namespace psring
