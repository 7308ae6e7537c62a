#include "worker/data_set.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "common/vectorize.h"
#include "glog/logging.h"
#include "worker/idx_file.h"

namespace psring {
namespace {

PSRING_VECTORIZED
void Normalise(const uint8_t* __restrict pixels, float* __restrict features,
               int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    features[i] = static_cast<float>(pixels[i]) / 255.0f;
  }
}

constexpr int kClasses = 10;
constexpr int kImageDimensions = 3;
constexpr int kLabelDimensions = 1;

// The images and the labels of one half of the data set.
struct Paths {
  std::string images;
  std::string labels;
};

Paths TrainPaths(const std::string& directory) {
  return {.images = absl::StrCat(directory, "/train-images-idx3-ubyte.gz"),
          .labels = absl::StrCat(directory, "/train-labels-idx1-ubyte.gz")};
}

Paths TestPaths(const std::string& directory) {
  return {.images = absl::StrCat(directory, "/t10k-images-idx3-ubyte.gz"),
          .labels = absl::StrCat(directory, "/t10k-labels-idx1-ubyte.gz")};
}

// Says where a missing file comes from.
absl::Status WithSource(const absl::Status& status) {
  if (!absl::IsNotFound(status)) return status;
  return absl::NotFoundError(absl::StrCat(
      status.message(), "; Debian's package dataset-fashion-mnist has it in ",
      kFashionMnistDirectory));
}

absl::Status CheckCounts(const Paths& paths, const IdxHeader& images,
                         const IdxHeader& labels) {
  if (images.samples() == labels.samples()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      paths.labels, ": does not fit ", paths.images, ": expected ", images.samples(),
      " labels, one for each image, found ", labels.samples()));
}

absl::Status CheckImageSizes(const Paths& train_paths, const IdxHeader& train,
                             const Paths& test_paths, const IdxHeader& test) {
  if (std::ranges::equal(train.sizes.begin() + 1, train.sizes.end(),
                         test.sizes.begin() + 1, test.sizes.end())) {
    return absl::OkStatus();
  }
  const auto image = [](const IdxHeader& header) {
    return absl::StrJoin(header.sizes.begin() + 1, header.sizes.end(), " x ");
  };
  return absl::InvalidArgumentError(
      absl::StrCat(test_paths.images, ": does not fit ", train_paths.images,
                   ": expected images of ", image(train), ", found ", image(test)));
}

absl::Status CheckLabels(const std::string& path, const std::vector<uint8_t>& labels) {
  const auto bad =
      std::ranges::find_if(labels, [](uint8_t label) { return label >= kClasses; });
  if (bad == labels.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": label of sample ", bad - labels.begin(),
      " is out of range: expected less than ", kClasses, ", found ", int{*bad}));
}

// Checks that the four files fit, which their headers tell.
absl::StatusOr<DataSetShape> ShapeOf(const std::string& directory,
                                     const IdxHeader& train_images,
                                     const IdxHeader& train_labels,
                                     const IdxHeader& test_images,
                                     const IdxHeader& test_labels) {
  const Paths train = TrainPaths(directory);
  const Paths test = TestPaths(directory);
  RETURN_IF_ERROR(CheckCounts(train, train_images, train_labels));
  RETURN_IF_ERROR(CheckCounts(test, test_images, test_labels));
  RETURN_IF_ERROR(CheckImageSizes(train, train_images, test, test_images));
  return DataSetShape{.train_count = train_images.samples(),
                      .test_count = test_images.samples(),
                      .features = train_images.sizes[1] * train_images.sizes[2],
                      .classes = kClasses};
}

absl::StatusOr<DataSetShape> ReadShape(const std::string& directory) {
  const Paths train = TrainPaths(directory);
  const Paths test = TestPaths(directory);
  ASSIGN_OR_RETURN(const IdxHeader train_images,
                   ReadIdxHeader(train.images, kImageDimensions));
  ASSIGN_OR_RETURN(const IdxHeader train_labels,
                   ReadIdxHeader(train.labels, kLabelDimensions));
  ASSIGN_OR_RETURN(const IdxHeader test_images,
                   ReadIdxHeader(test.images, kImageDimensions));
  ASSIGN_OR_RETURN(const IdxHeader test_labels,
                   ReadIdxHeader(test.labels, kLabelDimensions));
  return ShapeOf(directory, train_images, train_labels, test_images, test_labels);
}

absl::StatusOr<DataSet> Load(const std::string& directory) {
  const Paths train = TrainPaths(directory);
  const Paths test = TestPaths(directory);
  ASSIGN_OR_RETURN(IdxFile train_images, ReadIdxFile(train.images, kImageDimensions));
  ASSIGN_OR_RETURN(IdxFile train_labels, ReadIdxFile(train.labels, kLabelDimensions));
  ASSIGN_OR_RETURN(IdxFile test_images, ReadIdxFile(test.images, kImageDimensions));
  ASSIGN_OR_RETURN(IdxFile test_labels, ReadIdxFile(test.labels, kLabelDimensions));
  ASSIGN_OR_RETURN(const DataSetShape shape,
                   ShapeOf(directory, train_images.header, train_labels.header,
                           test_images.header, test_labels.header));
  RETURN_IF_ERROR(CheckLabels(train.labels, train_labels.values));
  RETURN_IF_ERROR(CheckLabels(test.labels, test_labels.values));
  return DataSet{.shape = shape,
                 .train = SampleSet(shape.features, std::move(train_images.values),
                                    std::move(train_labels.values)),
                 .test = SampleSet(shape.features, std::move(test_images.values),
                                   std::move(test_labels.values))};
}

}  // namespace

SampleSet::SampleSet(int64_t features, std::vector<uint8_t> pixels,
                     std::vector<uint8_t> labels)
    : features_(features), pixels_(std::move(pixels)), labels_(std::move(labels)) {
  CHECK_EQ(static_cast<int64_t>(pixels_.size()), count() * features_);
}

void SampleSet::FillBatch(std::span<const int64_t> indices, float* features,
                          int32_t* labels) const {
  for (const int64_t index : indices) {
    DCHECK(index >= 0 && index < count());
    Normalise(pixels_.data() + index * features_, features, features_);
    features += features_;
    *labels++ = labels_[index];
  }
}

absl::StatusOr<DataSet> LoadFashionMnist(const std::string& directory) {
  auto loaded = Load(directory);
  if (!loaded.ok()) return WithSource(loaded.status());
  return loaded;
}

absl::StatusOr<DataSetShape> ReadDataSetShape(const std::string& directory) {
  auto shape = ReadShape(directory);
  if (!shape.ok()) return WithSource(shape.status());
  return shape;
}

}  // namespace psring
