#include "ring/algorithm_by_size.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;

AlgorithmBySize Parse(const std::string& text) {
  RingMode settings;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &settings)) << text;
  return AlgorithmBySize(settings);
}

TEST(AlgorithmBySizeTest, OneForAll) {
  for (const AlgorithmBySize& tree :
       {AlgorithmBySize(RingMode::TREE), Parse("algorithm: TREE"),
        // Rows are AUTO's.
        Parse("algorithm: TREE choices { workers: 2 algorithm: RING }")}) {
    EXPECT_EQ(tree.For(0), RingMode::TREE);
    EXPECT_EQ(tree.For(std::numeric_limits<int64_t>::max()), RingMode::TREE);
    EXPECT_THAT(tree.all(), ElementsAre(RingMode::TREE));
  }
}

TEST(AlgorithmBySizeTest, ARowTakesWhatIsNotAboveItsLimit) {
  const AlgorithmBySize algorithms = Parse(
      "algorithm: AUTO"
      " choices { up_to_bytes: 100 algorithm: TREE }"
      " choices { up_to_bytes: 104 algorithm: HALVING_DOUBLING }"
      " choices { up_to_bytes: 200 algorithm: TREE }"
      " choices { algorithm: RING }");
  EXPECT_EQ(algorithms.For(0), RingMode::TREE);
  EXPECT_EQ(algorithms.For(100), RingMode::TREE);
  EXPECT_EQ(algorithms.For(101), RingMode::HALVING_DOUBLING);
  EXPECT_EQ(algorithms.For(104), RingMode::HALVING_DOUBLING);
  EXPECT_EQ(algorithms.For(200), RingMode::TREE);
  EXPECT_EQ(algorithms.For(201), RingMode::RING);
  EXPECT_EQ(algorithms.For(std::numeric_limits<int64_t>::max()), RingMode::RING);
  EXPECT_THAT(algorithms.all(),
              ElementsAre(RingMode::TREE, RingMode::HALVING_DOUBLING, RingMode::RING));
}

}  // namespace
}  // namespace psring
