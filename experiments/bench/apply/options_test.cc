#include "experiments/bench/apply/options.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/status_matchers.h"
#include "experiments/bench/apply/plan.h"
#include "experiments/bench/apply/received.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr ApplyMachine kMachine{.cache_bytes = 32 << 20,
                                .available_bytes = int64_t{16} << 30};

TEST(ApplyOptionsTest, ByDefaultEveryOptimizerWithEveryKindOfPieces) {
  ASSERT_OK_AND_ASSIGN(const ApplySettings settings,
                       CheckApplyOptions(ApplyOptions(), kMachine));
  EXPECT_EQ(settings.working_set_bytes, 128 << 20);
  // 4 MiB, 16 MiB, 64 MiB.
  ASSERT_EQ(settings.rows.size(), 3 * ApplyOptimizerNames().size() * 2);
  EXPECT_EQ(settings.rows[0].count, 1 << 20);
  EXPECT_EQ(settings.rows[0].optimizer, "sgd");
  EXPECT_EQ(settings.rows[0].pieces, PieceKind::kWhole);
  EXPECT_EQ(settings.rows[0].contributions, 4);
  EXPECT_EQ(settings.rows[0].buckets, 7);  // Of 20 MiB.
  EXPECT_EQ(settings.rows[1].pieces, PieceKind::kCut);
  EXPECT_EQ(settings.rows[2].optimizer, "momentum");
  EXPECT_EQ(settings.rows.back().count, 16 << 20);
  EXPECT_EQ(settings.rows.back().optimizer, "adagrad");
  int64_t most = 0;
  for (const ApplyCase& row : settings.rows) most = std::max(most, MemoryBytes(row));
  EXPECT_EQ(settings.memory_bytes, most);
  EXPECT_LT(most, int64_t{2} << 30);
}

TEST(ApplyOptionsTest, TheWorkingSetIsAsWanted) {
  ApplyOptions options;
  options.first_size = options.last_size = "1M";
  options.optimizers = {"momentum"};
  options.pieces = {"cut"};
  options.contributions = 2;
  options.working_set = "64M";
  ASSERT_OK_AND_ASSIGN(const ApplySettings settings,
                       CheckApplyOptions(options, kMachine));
  EXPECT_EQ(settings.working_set_bytes, 64 << 20);
  ASSERT_EQ(settings.rows.size(), 1u);
  EXPECT_EQ(settings.rows[0].buckets, 16);
  EXPECT_EQ(settings.rows[0].contributions, 2);
}

TEST(ApplyOptionsTest, WhatMakesNoSenseIsRefused) {
  struct Case {
    std::function<void(ApplyOptions&)> change;
    std::string message;
  };
  const std::vector<Case> cases = {
      {[](ApplyOptions& o) { o.first_size = "6"; }, "-b 6: not a positive multiple of 4"},
      {[](ApplyOptions& o) { o.last_size = "1K"; }, "-e 1K is less than -b 4M"},
      {[](ApplyOptions& o) { o.factor = 1; }, "-f 1: at least 2"},
      {[](ApplyOptions& o) { o.optimizers = {"lion"}; },
       "--optimizer lion: not one of sgd, momentum, nesterov, adam, adamw, adagrad"},
      {[](ApplyOptions& o) {
         o.optimizers = {"adam", "adam"};
       },
       "--optimizer names adam twice"},
      {[](ApplyOptions& o) { o.pieces = {"sliced"}; },
       "--pieces sliced: not one of whole, cut"},
      {[](ApplyOptions& o) { o.working_set = "much"; }, "\"much\" is not a size"}};
  for (const Case& c : cases) {
    ApplyOptions options;
    c.change(options);
    EXPECT_THAT(CheckApplyOptions(options, kMachine).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(c.message)));
  }
}

TEST(ApplyOptionsTest, MoreThanTheMemoryThatIsAvailableIsRefused) {
  ApplyOptions options;
  options.first_size = options.last_size = "64M";
  options.optimizers = {"sgd", "adam"};
  options.pieces = {"whole"};
  ASSERT_OK_AND_ASSIGN(const ApplySettings settings,
                       CheckApplyOptions(options, kMachine));
  ApplyMachine machine = kMachine;
  machine.available_bytes = settings.memory_bytes;
  EXPECT_OK(CheckApplyOptions(options, machine).status());
  --machine.available_bytes;
  EXPECT_THAT(CheckApplyOptions(options, machine).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("rows of 67,108,864 bytes with adam, 4 "
                                       "contributions and a working set of 134,217,728 "
                                       "bytes need "),
                             HasSubstr(" bytes of memory; available: "))));
}

TEST(ApplyOptionsTest, SizesBeyondAnyMemoryAreRefusedToo) {
  ApplyOptions options;
  options.last_size = "1024G";
  EXPECT_THAT(CheckApplyOptions(options, kMachine).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("available: ")));
  options.first_size = options.last_size = "4";
  options.working_set = "1024G";
  EXPECT_THAT(CheckApplyOptions(options, kMachine).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("available: ")));
}

TEST(ApplyOptionsTest, ThisMachineHasACacheAndMemory) {
  const ApplyMachine machine = FindApplyMachine();
  EXPECT_GE(machine.cache_bytes, 64 << 10);
  EXPECT_GT(machine.available_bytes, 0);
}

}  // namespace
}  // namespace psring
