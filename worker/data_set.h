// The samples that a model is trained and tested on.
#ifndef PSRING_WORKER_DATA_SET_H_
#define PSRING_WORKER_DATA_SET_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace psring {

// Where Debian's package dataset-fashion-mnist puts its files.
inline constexpr char kFashionMnistDirectory[] = "/usr/share/datasets/fashion-mnist";

struct DataSetShape {
  int64_t train_count = 0;  // Samples.
  int64_t test_count = 0;
  int64_t features = 0;  // Per sample; 784 for Fashion-MNIST.
  int64_t classes = 0;   // Labels are 0 to classes - 1.

  friend bool operator==(const DataSetShape&, const DataSetShape&) = default;
};

// Labelled images, kept as the bytes of their file. Immutable: any thread.
class SampleSet {
 public:
  // Requires pixels.size() == labels.size() * features.
  SampleSet(int64_t features, std::vector<uint8_t> pixels, std::vector<uint8_t> labels);

  int64_t count() const { return static_cast<int64_t>(labels_.size()); }

  // Writes the samples one after the other: features[i * F + k] is pixel k, row by row,
  // of sample indices[i], as float(pixel) / 255.0f, rounded once, hence in [0, 1]; no
  // mean is taken off. Requires 0 <= index < count(), room for indices.size() * F
  // features and for indices.size() labels.
  void FillBatch(std::span<const int64_t> indices, float* features,
                 int32_t* labels) const;

 private:
  int64_t features_;
  std::vector<uint8_t> pixels_;
  std::vector<uint8_t> labels_;
};

struct DataSet {
  DataSetShape shape;
  SampleSet train;
  SampleSet test;
};

// Fashion-MNIST, or any data set of 10 classes in the form of its four files:
// {train,t10k}-images-idx3-ubyte.gz and {train,t10k}-labels-idx1-ubyte.gz. NotFound: a
// file is missing, and where it comes from. InvalidArgument: a file is damaged, has a
// label out of range, or does not fit another one; both are named.
absl::StatusOr<DataSet> LoadFashionMnist(const std::string& directory);

// The same from the headers alone, for who needs only the sizes; errors as above, as far
// as headers show them.
absl::StatusOr<DataSetShape> ReadDataSetShape(const std::string& directory);

}  // namespace psring

#endif  // PSRING_WORKER_DATA_SET_H_
