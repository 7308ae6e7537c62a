#include "experiments/bench/apply/plan.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "experiments/bench/apply/received.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;

ApplyCase Row(const std::string& optimizer, int contributions = 4, int64_t count = 1) {
  return {.count = count,
          .contributions = contributions,
          .optimizer = optimizer,
          .pieces = PieceKind::kWhole,
          .buckets = 1};
}

TEST(ApplyPlanTest, EveryKindOfOptimizerHasItsName) {
  EXPECT_THAT(ApplyOptimizerNames(),
              ElementsAre("sgd", "momentum", "nesterov", "adam", "adamw", "adagrad"));
  EXPECT_EQ(ApplyOptimizer("sgd").sgd().momentum(), 0);
  EXPECT_FALSE(ApplyOptimizer("momentum").sgd().nesterov());
  EXPECT_GT(ApplyOptimizer("momentum").sgd().momentum(), 0);
  EXPECT_TRUE(ApplyOptimizer("nesterov").sgd().nesterov());
  EXPECT_GT(ApplyOptimizer("nesterov").sgd().momentum(), 0);
  // With the defaults of an experiment.
  EXPECT_EQ(ApplyOptimizer("adam").adam().beta2(), 0.999f);
  EXPECT_EQ(ApplyOptimizer("adamw").adamw().beta1(), 0.9f);
  EXPECT_GT(ApplyOptimizer("adagrad").adagrad().learning_rate(), 0);
}

// Per parameter: contributions read, parameter and state read and written.
TEST(ApplyPlanTest, BytesMovedByAnUpdate) {
  for (const auto& [optimizer, bytes] :
       std::vector<std::pair<std::string, int64_t>>{{"sgd", 8},
                                                    {"momentum", 16},
                                                    {"nesterov", 16},
                                                    {"adam", 24},
                                                    {"adamw", 24},
                                                    {"adagrad", 16}}) {
    for (const int contributions : {1, 4, 7}) {
      EXPECT_EQ(MovedBytes(Row(optimizer, contributions, 1000)),
                1000 * (4 * contributions + bytes))
          << optimizer << " with " << contributions;
    }
  }
}

TEST(ApplyPlanTest, TheTriadMovesAsMuch) {
  // 24 bytes are two elements of the triad's; 32 are three, of which one is not needed
  // whole.
  EXPECT_EQ(TriadCount(Row("sgd")), 2);
  EXPECT_EQ(TriadCount(Row("momentum")), 3);
  EXPECT_EQ(TriadCount(Row("momentum", 4, 3 << 20)), 8 << 20);
}

TEST(ApplyPlanTest, BucketsFillTheWorkingSet) {
  // 4 contributions, parameters and two floats of state: 28 bytes an element.
  const ApplyCase adam = Row("adam", 4, 100);
  EXPECT_EQ(BucketsFor(adam, 2800), 1);
  EXPECT_EQ(BucketsFor(adam, 2801), 2);
  EXPECT_EQ(BucketsFor(adam, 28000), 10);
  EXPECT_EQ(BucketsFor(adam, 1), 1);
  EXPECT_EQ(BucketsFor(Row("sgd", 4, 100), 2801), 2);
  EXPECT_EQ(BucketsFor(Row("sgd", 1, 100), 2801), 4);
}

TEST(ApplyPlanTest, MemoryIsThatOfEveryArray) {
  ApplyCase row = Row("momentum", 4, 1 << 18);  // One slot.
  row.buckets = 3;
  const int64_t slot = 1 << 20;
  // Contributions, parameters, velocity, and the triad's bytes, which are 8 times the
  // parameters' and a rest.
  const int64_t floats = 3 * (4 + 1 + 1 + 8) * slot;
  EXPECT_GE(MemoryBytes(row), floats);
  EXPECT_LE(MemoryBytes(row), floats + 3 * 8192);
  ApplyCase cut = row;
  cut.pieces = PieceKind::kCut;
  EXPECT_EQ(MemoryBytes(cut) - MemoryBytes(row),
            3 * 4 * (kMessageHeaderBytes + 65 * kFrameHeaderBytes));
}

TEST(ApplyPlanTest, SmallSlotsCostMoreThanTheirFloats) {
  ApplyCase row = Row("sgd", 4, 1);
  row.buckets = 1'000'000;
  EXPECT_GE(MemoryBytes(row), 1'000'000 * int64_t{1024});
}

}  // namespace
}  // namespace psring
