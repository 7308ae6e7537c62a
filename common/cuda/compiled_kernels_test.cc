// The kernels as nvcc has compiled them. Absent without a toolkit.
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "common/cuda/kernel_budget.h"
#include "common/cuda/kernels.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

// Paths are from the repository's root, where Bazel runs tests.
std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(CompiledKernelsTest, StayWithinTheirBudget) {
  ASSERT_OK_AND_ASSIGN(const auto budget,
                       ParseBudget(ReadFile("common/cuda/kernel_budget.txt")));
  ASSERT_OK_AND_ASSIGN(
      const std::vector<KernelUsage> usage,
      ParseUsage(ReadFile("common/cuda/kernels_objects/kernels.ptxas.txt")));
  EXPECT_THAT(FindBeyondBudget(budget, usage, {"sm_80", "sm_90"}), testing::IsEmpty());
}

// Without a driver too, where a launch would be an error.
TEST(CompiledKernelsTest, WhereThereIsNothingToDoNothingIsStarted) {
  EXPECT_EQ(LaunchAddBias(nullptr, 0, 3, nullptr, true, nullptr), cudaSuccess);
  EXPECT_EQ(LaunchMaskGradient(nullptr, 0, nullptr, nullptr), cudaSuccess);
  EXPECT_EQ(LaunchSumColumns(nullptr, 3, 0, nullptr, nullptr), cudaSuccess);
  EXPECT_EQ(LaunchSoftmaxCrossEntropy(nullptr, 0, 3, nullptr, nullptr, nullptr, nullptr),
            cudaSuccess);
  EXPECT_EQ(LaunchMean(nullptr, 0, nullptr, nullptr), cudaSuccess);
  for (const UpdateRule rule :
       {UpdateRule::kSgd, UpdateRule::kMomentum, UpdateRule::kNesterov, UpdateRule::kAdam,
        UpdateRule::kAdagrad}) {
    EXPECT_EQ(LaunchUpdateParameters(nullptr, rule, {}, 1, {}), cudaSuccess);
  }
  EXPECT_EQ(LaunchDigest(nullptr, 0, nullptr, 0, nullptr), cudaSuccess);
  EXPECT_EQ(LaunchFindBeyond(nullptr, 0, nullptr, 1, nullptr), cudaSuccess);
  EXPECT_EQ(LaunchZeroWhereFound(nullptr, 0, nullptr, nullptr, nullptr), cudaSuccess);
  for (const SixteenBits type : {SixteenBits::kBf16, SixteenBits::kFp16}) {
    EXPECT_EQ(LaunchRound(nullptr, type, 0, nullptr, 1, nullptr), cudaSuccess);
    EXPECT_EQ(LaunchWiden(nullptr, type, 0, nullptr, nullptr), cudaSuccess);
  }
  EXPECT_EQ(LaunchAddTo(nullptr, 0, nullptr, nullptr), cudaSuccess);
  EXPECT_EQ(LaunchScaleBy(nullptr, 0, 1, nullptr), cudaSuccess);
}

}  // namespace
}  // namespace psring
