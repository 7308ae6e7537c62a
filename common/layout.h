// How a model's tensors lie in the flat buffers, and how these are cut into buckets.
// Pure values, computed alike on every process.
#ifndef PSRING_COMMON_LAYOUT_H_
#define PSRING_COMMON_LAYOUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/partition.h"

namespace psring {

// A named, shaped slice of the flat buffer.
struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  Range range;  // Elements of the flat buffer.
};

// Tensors in forward order, one after the other without gaps; parameters and gradients
// share the layout.
class ParameterLayout {
 public:
  // Appends a tensor behind the last one. Sizes are >= 0.
  void Add(std::string name, std::vector<int64_t> shape);

  const std::vector<Tensor>& tensors() const { return tensors_; }
  int64_t count() const { return count_; }  // Elements.
  int64_t bytes() const { return count_ * int64_t{sizeof(float)}; }
  // The tensor that has the element; 0 <= element < count().
  const Tensor& TensorAt(int64_t element) const;

 private:
  std::vector<Tensor> tensors_;
  int64_t count_ = 0;
};

// A run of consecutive tensors, hence one slice of the flat buffer. Bucket 0 holds the
// last layers, whose gradients are ready first.
struct Bucket {
  int index = 0;
  int first_tensor = 0;  // In forward order.
  int tensor_count = 0;
  Range range;
};

struct BucketPlan {
  std::vector<Bucket> buckets;
  std::vector<int> bucket_of_tensor;
};

// Walks the tensors from the last to the first and closes a bucket before it would
// exceed its cap (first_cap_bytes for bucket 0); a tensor larger than the cap becomes a
// bucket alone. Requires positive caps. A layout without elements has no buckets.
BucketPlan PlanBuckets(const ParameterLayout& layout, int64_t cap_bytes,
                       int64_t first_cap_bytes);

}  // namespace psring

#endif  // PSRING_COMMON_LAYOUT_H_
