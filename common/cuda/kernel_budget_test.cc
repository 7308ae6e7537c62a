#include "common/cuda/kernel_budget.h"

#include <map>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kText[] = R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN6psring9RunKernelINS_17ElementwiseKernelINS_7AddBiasEEEEEvT_' for 'sm_80'
ptxas info    : Function properties for _ZN6psring9RunKernelINS_17ElementwiseKernelINS_7AddBiasEEEEEvT_
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 408 bytes cmem[0]
ptxas info    : Compile time = 12.345 ms
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN6psring9RunKernelINS_10MeanKernelEEEvT_' for 'sm_90'
ptxas info    : Function properties for _ZN6psring9RunKernelINS_10MeanKernelEEEvT_
    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 16 bytes cumulative stack size
ptxas info    : Compiling entry function '_Z5Otherv' for 'sm_90'
ptxas info    : Function properties for _Z5Otherv
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers
)";

TEST(KernelBudgetTest, ReadsWhatNvccSays) {
  ASSERT_OK_AND_ASSIGN(const std::vector<KernelUsage> usage, ParseUsage(kText));
  ASSERT_EQ(usage.size(), 3u);
  EXPECT_EQ(usage[0].kernel, "ElementwiseKernel<AddBias>");
  EXPECT_EQ(usage[0].architecture, "sm_80");
  EXPECT_EQ(usage[0].registers, 32);
  EXPECT_EQ(usage[0].stack_bytes, 0);
  EXPECT_EQ(usage[0].spill_bytes, 0);
  EXPECT_EQ(usage[1].kernel, "MeanKernel");
  EXPECT_EQ(usage[1].architecture, "sm_90");
  EXPECT_EQ(usage[1].registers, 255);
  EXPECT_EQ(usage[1].stack_bytes, 16);
  EXPECT_EQ(usage[1].spill_bytes, 12);
  EXPECT_EQ(usage[2].kernel, "Other");
}

TEST(KernelBudgetTest, TextThatBreaksOffIsNoResult) {
  const std::string text = kText;
  for (const char* end :
       {"ptxas info    : Function properties for _Z5", "ptxas info    : Used 8"}) {
    EXPECT_THAT(ParseUsage(text.substr(0, text.find(end))),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("the text ends within a kernel")));
  }
  EXPECT_THAT(ParseUsage("ptxas info    : 0 bytes gmem\n"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no kernel")));
  EXPECT_THAT(ParseUsage("\nptxas info    : Used 8 registers\n"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("line 2")));
}

TEST(KernelBudgetTest, ReadsABudget) {
  ASSERT_OK_AND_ASSIGN(const auto budget, ParseBudget("# Why.\n\nA<B>  32\nC 255\n"));
  EXPECT_THAT(budget, ElementsAre(testing::Pair("A<B>", 32), testing::Pair("C", 255)));
}

TEST(KernelBudgetTest, WhatIsNoBudgetIsNamed) {
  for (const char* line : {"A", "A 32 0", "A -1", "A x", "C 5"}) {
    EXPECT_THAT(ParseBudget(std::string("C 4\n") + line),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(std::string("line 2: \"") + line)));
  }
}

KernelUsage Usage(const std::string& kernel, const std::string& architecture,
                  int registers) {
  return {.kernel = kernel, .architecture = architecture, .registers = registers};
}

TEST(KernelBudgetTest, WithinTheBudgetNothingIsWrong) {
  EXPECT_THAT(
      FindBeyondBudget({{"A", 32}}, {Usage("A", "sm_80", 32), Usage("A", "sm_90", 8)},
                       {"sm_80", "sm_90"}),
      IsEmpty());
}

TEST(KernelBudgetTest, EachThingBeyondItIsNamed) {
  std::vector<KernelUsage> usage = {Usage("A", "sm_80", 33), Usage("A", "sm_90", 32)};
  EXPECT_THAT(FindBeyondBudget({{"A", 32}}, usage, {"sm_80", "sm_90"}),
              ElementsAre("A on sm_80 takes 33 registers, its budget is 32"));
  EXPECT_THAT(FindBeyondBudget({}, usage, {"sm_80"}), ElementsAre("A has no budget"));
  EXPECT_THAT(FindBeyondBudget({{"A", 64}}, usage, {"sm_100"}),
              ElementsAre("A is not compiled for sm_100"));
  EXPECT_THAT(FindBeyondBudget({{"A", 64}, {"B", 9}}, usage, {}),
              ElementsAre("B has a budget, but there is no such kernel"));
  usage[1].spill_bytes = 4;
  EXPECT_THAT(FindBeyondBudget({{"A", 64}}, usage, {}),
              ElementsAre("A on sm_90 spills 4 bytes and has 0 bytes of stack, and may "
                          "have none"));
  usage[1].spill_bytes = 0;
  usage[1].stack_bytes = 8;
  EXPECT_THAT(FindBeyondBudget({{"A", 64}}, usage, {}),
              ElementsAre(HasSubstr("has 8 bytes of stack")));
}

}  // namespace
}  // namespace psring
