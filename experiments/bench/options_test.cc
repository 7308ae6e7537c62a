#include "experiments/bench/options.h"

#include "absl/status/status.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ParseBytesTest, TakesBytesAndSuffixes) {
  EXPECT_EQ(*ParseBytes("0"), 0);
  EXPECT_EQ(*ParseBytes("4100"), 4100);
  EXPECT_EQ(*ParseBytes("4K"), 4096);
  EXPECT_EQ(*ParseBytes("3m"), 3 << 20);
  EXPECT_EQ(*ParseBytes("1024G"), int64_t{1} << 40);
}

TEST(ParseBytesTest, RefusesEverythingElse) {
  for (const char* text :
       {"", "K", "4KB", "4 K", "-4", "1.5M", "1025G", "0x10", "99999999999999999999"}) {
    EXPECT_THAT(ParseBytes(text).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is not a size")))
        << text;
  }
}

BenchOptions Sizes(const char* first, const char* last, int64_t factor) {
  BenchOptions options;
  options.first_size = first;
  options.last_size = last;
  options.factor = factor;
  return options;
}

TEST(SizesOfTest, GrowByTheFactorUpToTheLast) {
  EXPECT_THAT(*SizesOf(Sizes("4K", "64K", 4)), ElementsAre(4096, 16384, 65536));
  EXPECT_THAT(*SizesOf(Sizes("4K", "65535", 4)), ElementsAre(4096, 16384));
  EXPECT_THAT(*SizesOf(Sizes("12", "12", 2)), ElementsAre(12));
  EXPECT_THAT(*SizesOf(Sizes("512G", "1024G", int64_t{1} << 62)),
              ElementsAre(int64_t{1} << 39));
}

TEST(SizesOfTest, NamesTheFlagThatMakesNoSense) {
  const auto refusal = [](const BenchOptions& options) {
    return SizesOf(options).status();
  };
  const auto names = [](const char* text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text));
  };
  EXPECT_THAT(refusal(Sizes("0", "4K", 2)), names("-b 0"));
  EXPECT_THAT(refusal(Sizes("4K", "1K", 2)), names("-e 1K is less than -b 4K"));
  EXPECT_THAT(refusal(Sizes("6", "4K", 2)), names("-b 6: not a positive multiple"));
  EXPECT_THAT(refusal(Sizes("4K", "8K", 1)), names("-f 1: at least 2"));
}

}  // namespace
}  // namespace psring
