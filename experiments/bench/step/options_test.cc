#include "experiments/bench/step/options.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;

TEST(StepOptionsTest, DefaultsMakeSense) {
  ASSERT_OK_AND_ASSIGN(const StepSettings settings, CheckStepOptions({}));
  EXPECT_THAT(settings.widths, ElementsAre(784, 1024, 1024, 10));
  EXPECT_THAT(settings.caps, ElementsAre(1 << 20));
  EXPECT_EQ(settings.parameters, 784 * 1024 + 1024 + 1024 * 1024 + 1024 + 1024 * 10 + 10);
  EXPECT_EQ(settings.samples, 32 * 64 * 2);
}

TEST(StepOptionsTest, TakesWhatIsAllowed) {
  StepBenchOptions options;
  options.model = "3-10";
  options.caps = {"4", "64K", "2M"};
  options.arms = {"local", "ring"};
  options.transports = {"grpc", "shared_memory"};
  options.ranks = 16;
  options.against = {"pytorch"};
  ASSERT_OK_AND_ASSIGN(const StepSettings settings, CheckStepOptions(options));
  EXPECT_THAT(settings.widths, ElementsAre(3, 10));
  EXPECT_THAT(settings.caps, ElementsAre(4, 1 << 16, 2 << 20));
  EXPECT_EQ(settings.parameters, 40);
}

TEST(StepOptionsTest, RefusesTheRestWithTheFlag) {
  using Change = std::function<void(StepBenchOptions&)>;
  for (const auto& [change, message] : std::vector<std::pair<Change, std::string>>{
           {[](auto& o) { o.model = "784-x-10"; },
            "--model 784-x-10: \"x\" is not a width; allowed: 1 to 1048576, joined by "
            "'-'"},
           {[](auto& o) { o.model = "784--10"; },
            "--model 784--10: \"\" is not a width; allowed: 1 to 1048576, joined by '-'"},
           {[](auto& o) { o.model = "0-10"; },
            "--model 0-10: \"0\" is not a width; allowed: 1 to 1048576, joined by '-'"},
           {[](auto& o) { o.model = "10"; },
            "--model 10: allowed: at least two widths, of which the last is 10, the "
            "classes of the data"},
           {[](auto& o) { o.model = "784-11"; },
            "--model 784-11: allowed: at least two widths, of which the last is 10, the "
            "classes of the data"},
           {[](auto& o) { o.model = "8-65536-65536-10"; },
            "--model 8-65536-65536-10: allowed: at most 1073741824 parameters"},
           {[](auto& o) { o.arms = {"bus"}; },
            "--arm bus: not one of ring, servers, local"},
           {[](auto& o) {
              o.arms = {"ring", "ring"};
            },
            "--arm names ring twice"},
           {[](auto& o) { o.transports = {"udp"}; },
            "--transport udp: not one of tcp, shared_memory, grpc"},
           {[](auto& o) {
              o.arms = {"servers"};
              o.transports = {"grpc"};
            },
            "--transport is a ring's: it needs --arm ring"},
           {[](auto& o) { o.against = {"gloo"}; }, "--against gloo: not one of pytorch"},
           {[](auto& o) { o.ranks = 0; }, "--ranks 0: 1 to 16"},
           {[](auto& o) { o.ranks = 17; }, "--ranks 17: 1 to 16"},
           {[](auto& o) { o.servers = 0; }, "--servers 0: 1 to 16"},
           {[](auto& o) { o.servers = 17; }, "--servers 17: 1 to 16"},
           {[](auto& o) { o.caps = {"1Q"}; },
            "\"1Q\" is not a size: bytes, or a number with K, M or G"},
           {[](auto& o) { o.caps = {"3"}; }, "--cap 3: at least a float's 4 bytes"},
           {[](auto& o) {
              o.caps = {"1M", "1024K"};
            },
            "--cap names 1024K twice"},
           {[](auto& o) { o.batch = 65536; },
            "--batch 65536: allowed: 21399 at most, with 2 ranks and 784 pixels a "
            "sample"}}) {
    StepBenchOptions options;
    change(options);
    EXPECT_THAT(CheckStepOptions(options).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, message));
  }
}

}  // namespace
}  // namespace psring
