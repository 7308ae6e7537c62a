#include "worker/data_set.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

std::string Word(int value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

// A folder with a tiny data set: 3 training and 2 test images of 1 x 2 pixels. Each test
// spoils one file.
class DataSetTest : public testing::Test {
 protected:
  DataSetTest()
      : directory_(testing::TempDir() + "/" +
                   testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directories(directory_);
    WriteImages("train", 3, 1, 2, {0, 51, 255, 1, 102, 204});
    WriteLabels("train", {7, 0, 9});
    WriteImages("t10k", 2, 1, 2, {10, 20, 30, 40});
    WriteLabels("t10k", {1, 2});
  }

  void WriteImages(const std::string& half, int count, int rows, int columns,
                   const std::vector<uint8_t>& pixels) {
    Write(half + "-images-idx3-ubyte.gz",
          Word(0x803) + Word(count) + Word(rows) + Word(columns), pixels);
  }
  void WriteLabels(const std::string& half, const std::vector<uint8_t>& labels) {
    Write(half + "-labels-idx1-ubyte.gz",
          Word(0x801) + Word(static_cast<int>(labels.size())), labels);
  }

  const std::string directory_;

 private:
  void Write(const std::string& name, const std::string& header,
             const std::vector<uint8_t>& values) {
    const std::string content = header + std::string(values.begin(), values.end());
    const gzFile file = gzopen((directory_ + "/" + name).c_str(), "wb");
    ASSERT_EQ(gzwrite(file, content.data(), content.size()),
              static_cast<int>(content.size()));
    ASSERT_EQ(gzclose(file), Z_OK);
  }
};

TEST_F(DataSetTest, ShapeAndCounts) {
  const DataSetShape expected = {
      .train_count = 3, .test_count = 2, .features = 2, .classes = 10};
  ASSERT_OK_AND_ASSIGN(const DataSet data, LoadFashionMnist(directory_));
  EXPECT_EQ(data.shape, expected);
  EXPECT_EQ(data.train.count(), 3);
  EXPECT_EQ(data.test.count(), 2);
  ASSERT_OK_AND_ASSIGN(const DataSetShape shape, ReadDataSetShape(directory_));
  EXPECT_EQ(shape, expected);
}

TEST_F(DataSetTest, FillBatchTakesSamplesInTheOrderOfTheIndices) {
  ASSERT_OK_AND_ASSIGN(const DataSet data, LoadFashionMnist(directory_));
  const std::vector<int64_t> indices = {2, 0, 2};
  std::array<float, 6> features = {};
  std::array<int32_t, 3> labels = {};
  data.train.FillBatch(indices, features.data(), labels.data());
  EXPECT_THAT(labels, ElementsAre(9, 7, 9));
  EXPECT_THAT(features, ElementsAre(102 / 255.0f, 204 / 255.0f, 0.0f, 51 / 255.0f,  //
                                    102 / 255.0f, 204 / 255.0f));
  data.train.FillBatch(std::vector<int64_t>{1}, features.data(), labels.data());
  EXPECT_EQ(features[0], 1.0f);
  EXPECT_EQ(features[1], 1 / 255.0f);
}

TEST_F(DataSetTest, MissingFileNamesThePackage) {
  std::filesystem::remove(directory_ + "/t10k-labels-idx1-ubyte.gz");
  const auto missing =
      StatusIs(absl::StatusCode::kNotFound,
               AllOf(HasSubstr(directory_ + "/t10k-labels-idx1-ubyte.gz: no such file"),
                     HasSubstr("Debian's package dataset-fashion-mnist")));
  EXPECT_THAT(LoadFashionMnist(directory_), missing);
  EXPECT_THAT(ReadDataSetShape(directory_), missing);
}

TEST_F(DataSetTest, CountsOfImagesAndLabelsDiffer) {
  WriteLabels("train", {7, 0});
  const auto differ =
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("/train-labels-idx1-ubyte.gz: does not fit "),
                     EndsWith("/train-images-idx3-ubyte.gz: expected 3 labels, one for "
                              "each image, found 2")));
  EXPECT_THAT(LoadFashionMnist(directory_), differ);
  EXPECT_THAT(ReadDataSetShape(directory_), differ);
}

TEST_F(DataSetTest, TrainAndTestImagesDifferInSize) {
  WriteImages("t10k", 2, 2, 1, {10, 20, 30, 40});
  EXPECT_THAT(ReadDataSetShape(directory_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("/t10k-images-idx3-ubyte.gz: does not fit "),
                             HasSubstr("/train-images-idx3-ubyte.gz"),
                             EndsWith("expected images of 1 x 2, found 2 x 1"))));
}

TEST_F(DataSetTest, LabelOutOfRange) {
  WriteLabels("t10k", {1, 10});
  EXPECT_THAT(LoadFashionMnist(directory_),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       EndsWith("/t10k-labels-idx1-ubyte.gz: label of sample 1 is out of "
                                "range: expected less than 10, found 10")));
}

TEST(FashionMnistTest, TheRealOne) {
  ASSERT_OK_AND_ASSIGN(const DataSet data, LoadFashionMnist(kFashionMnistDirectory));
  EXPECT_EQ(
      data.shape,
      (DataSetShape{
          .train_count = 60000, .test_count = 10000, .features = 784, .classes = 10}));
  // Each class has a tenth of either half.
  for (const SampleSet* half : {&data.train, &data.test}) {
    std::array<int64_t, 10> of_class = {};
    std::vector<float> features(784);
    float smallest = 1;
    float largest = 0;
    for (int64_t index = 0; index < half->count(); ++index) {
      int32_t label = 0;
      half->FillBatch(std::span(&index, 1), features.data(), &label);
      ++of_class[label];
      const auto [low, high] = std::ranges::minmax(features);
      smallest = std::min(smallest, low);
      largest = std::max(largest, high);
    }
    EXPECT_THAT(of_class, testing::Each(half->count() / 10));
    EXPECT_EQ(smallest, 0.0f);
    EXPECT_EQ(largest, 1.0f);
  }
}

}  // namespace
}  // namespace psring
