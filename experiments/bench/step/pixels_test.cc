#include "experiments/bench/step/pixels.h"

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/data_set.h"

namespace psring {
namespace {

TEST(PixelsTest, AreADataSetThatAWorkerLoadsAndLearnsFrom) {
  const std::string folder = testing::TempDir() + "/pixels";
  std::filesystem::create_directories(folder);
  ASSERT_OK(WritePixels(folder, 30, 400));
  ASSERT_OK_AND_ASSIGN(const DataSet data, LoadFashionMnist(folder));
  EXPECT_EQ(data.shape.features, 30);
  EXPECT_EQ(data.shape.train_count, 400);
  EXPECT_GT(data.shape.test_count, 0);

  std::vector<int64_t> indices(400);
  for (int64_t i = 0; i < 400; ++i) indices[i] = i;
  std::vector<float> features(400 * 30);
  std::vector<int32_t> labels(400);
  data.train.FillBatch(indices, features.data(), labels.data());
  const auto distance = [&](int64_t a, int64_t b) {
    double sum = 0;
    for (int64_t i = 0; i < 30; ++i) {
      sum += std::abs(features[a * 30 + i] - features[b * 30 + i]);
    }
    return sum;
  };
  int misleading = 0;
  for (int64_t i = 0; i < 400; ++i) {
    // Noise alone is less than what tells two patterns from each other.
    EXPECT_LT(distance(i, i % 10), distance(i, (i + 1) % 10)) << i;
    if (labels[i] == i % 10) continue;
    EXPECT_EQ(i % 4, 3) << i;
    ++misleading;
  }
  EXPECT_GT(misleading, 50);
}

TEST(PixelsTest, AFolderThatIsNotThereIsNamed) {
  EXPECT_THAT(WritePixels("/nowhere", 2, 10),
              StatusIs(absl::StatusCode::kInternal,
                       "cannot write /nowhere/train-images-idx3-ubyte.gz"));
}

}  // namespace
}  // namespace psring
