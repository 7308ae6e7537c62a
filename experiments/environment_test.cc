#include "experiments/environment.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::Contains;
using testing::Pair;
using testing::StartsWith;

TEST(EnvironmentTest, CudaInAFewWords) {
  EXPECT_EQ(DescribeCuda({.missing = "no toolkit"}, ""), "not built in: no toolkit");
  EXPECT_EQ(DescribeCuda({.toolkit = "13.0"}, ""), "13.0 built in, no driver");
  EXPECT_EQ(DescribeCuda({.toolkit = "13.0"}, "13.1"),
            "13.0 built in, driver for CUDA 13.1");
}

TEST(EnvironmentTest, ARunsEnvironmentHasIt) {
  const CudaBuild build = BuiltWithCuda();
  EXPECT_THAT(DescribeMachine(),
              Contains(Pair("CUDA", StartsWith(build.missing.empty()
                                                   ? build.toolkit + " built in, "
                                                   : "not built in: " + build.missing))));
}

}  // namespace
}  // namespace psring
