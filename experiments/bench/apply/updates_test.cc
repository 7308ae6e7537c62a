#include "experiments/bench/apply/updates.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/partition.h"
#include "common/status_matchers.h"
#include "experiments/bench/apply/inputs.h"
#include "experiments/bench/apply/plan.h"
#include "experiments/bench/apply/received.h"
#include "experiments/bench/apply/reference.h"
#include "experiments/bench/apply/thread_team.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/experiment.pb.h"

namespace psring {
namespace {

using testing::HasSubstr;

constexpr int64_t kCount = 10'007;
// A bucket is two slots, of three frames each, where they are cut.
constexpr int64_t kSlotBytes = 40'000;

ApplyCase Row(const std::string& optimizer, int contributions,
              PieceKind pieces = PieceKind::kWhole) {
  return {.count = kCount,
          .contributions = contributions,
          .optimizer = optimizer,
          .pieces = pieces,
          .buckets = 2};
}

class ServerUpdatesTest
    : public testing::TestWithParam<std::tuple<std::string, std::string, int>> {};

TEST_P(ServerUpdatesTest, AServersParametersAreTheReferences) {
  const auto& [optimizer, pieces, threads] = GetParam();
  ThreadTeam team(threads);
  for (const int contributions : {1, 2, 4, 5}) {
    ASSERT_OK_AND_ASSIGN(
        const std::unique_ptr<ServerUpdates> updates,
        ServerUpdates::Make(Row(optimizer, contributions, PieceKindOf(pieces)), &team,
                            kSlotBytes));
    ASSERT_EQ(updates->buckets(), 2);
    // Each bucket goes its own way.
    for (const int64_t bucket : {0, 1, 1, 0, 1}) ASSERT_OK(updates->Update(bucket));
    for (const int64_t bucket : {0, 1}) {
      ASSERT_OK_AND_ASSIGN(const WrongElements wrong, updates->Check(bucket));
      EXPECT_EQ(wrong.count, 0) << contributions << " contributions: " << wrong.first;
      EXPECT_EQ(wrong.first, "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ServerUpdatesTest,
                         testing::Combine(testing::ValuesIn(ApplyOptimizerNames()),
                                          testing::Values("whole", "cut"),
                                          testing::Values(1, 3)),
                         [](const auto& instance) {
                           return absl::StrCat(std::get<0>(instance.param), "_",
                                               std::get<1>(instance.param), "_",
                                               std::get<2>(instance.param));
                         });

constexpr Range kBucket{.begin = 70, .count = 101};

std::vector<float> ReferenceOf(const ApplyReference& reference) {
  std::vector<float> values;
  for (int64_t i = kBucket.begin; i < kBucket.end(); ++i) {
    values.push_back(reference.At(i));
  }
  return values;
}

TEST(ApplyReferenceTest, PlainSgdByHand) {
  const Optimizer sgd = ApplyOptimizer("sgd");
  const ApplyReference reference(Row("sgd", 2), kBucket, /*updates=*/1);
  for (int64_t i = kBucket.begin; i < kBucket.end(); ++i) {
    const float parameter = ParameterAt(i);
    // Of two terms the order does not matter.
    const float mean = (ContributionAt(0, i) + ContributionAt(1, i)) * 0.5f;
    EXPECT_EQ(reference.At(i),
              parameter - sgd.sgd().learning_rate() *
                              (mean + sgd.sgd().weight_decay() * parameter))
        << i;
  }
}

TEST(ApplyReferenceTest, OneBitIsFoundAndNamed) {
  const ApplyReference reference(Row("momentum", 4), kBucket, /*updates=*/3);
  std::vector<float> values = ReferenceOf(reference);
  EXPECT_EQ(reference.Compare(kBucket.begin, values).count, 0);
  values[30] = std::nextafter(values[30], 2.0f);
  values[40] = -values[40];
  const WrongElements wrong = reference.Compare(kBucket.begin, values);
  EXPECT_EQ(wrong.count, 2);
  EXPECT_THAT(wrong.first, HasSubstr("element 30 of a bucket is "));
  EXPECT_THAT(wrong.first, HasSubstr(" after 3 updates"));
  // A part of the bucket, as a slot is.
  EXPECT_EQ(
      reference.Compare(kBucket.begin + 35, std::span<const float>(values).subspan(35))
          .count,
      1);
}

// Everything that an update depends on shows in nearly every element.
TEST(ApplyReferenceTest, AnythingElseIsWrong) {
  for (const std::string& optimizer : ApplyOptimizerNames()) {
    const ApplyReference reference(Row(optimizer, 4), kBucket, /*updates=*/3);
    const auto wrong = [&](const ApplyReference& other) {
      return reference.Compare(kBucket.begin, ReferenceOf(other)).count;
    };
    EXPECT_GT(wrong(ApplyReference(Row(optimizer, 4), kBucket, 2)), 90) << optimizer;
    EXPECT_GT(wrong(ApplyReference(Row(optimizer, 3), kBucket, 3)), 90) << optimizer;
    for (const std::string& another : ApplyOptimizerNames()) {
      if (another == optimizer) continue;
      EXPECT_GT(wrong(ApplyReference(Row(another, 4), kBucket, 3)), 80)
          << optimizer << " and " << another;
    }
    // Chunks lie elsewhere, and with them the order of additions.
    const ApplyReference moved(Row(optimizer, 4),
                               {.begin = kBucket.begin - 20, .count = 121}, 3);
    EXPECT_GT(wrong(moved), 0) << optimizer;
  }
}

}  // namespace
}  // namespace psring
