#include "common/layout.h"

#include <algorithm>
#include <utility>

#include "glog/logging.h"

namespace psring {

void ParameterLayout::Add(std::string name, std::vector<int64_t> shape) {
  int64_t count = 1;
  for (const int64_t size : shape) {
    CHECK_GE(size, 0) << name;
    count *= size;
  }
  tensors_.push_back({.name = std::move(name),
                      .shape = std::move(shape),
                      .range = {.begin = count_, .count = count}});
  count_ += count;
}

const Tensor& ParameterLayout::TensorAt(int64_t element) const {
  CHECK(element >= 0 && element < count_) << element;
  return *std::partition_point(
      tensors_.begin(), tensors_.end(),
      [element](const Tensor& tensor) { return tensor.range.end() <= element; });
}

BucketPlan PlanBuckets(const ParameterLayout& layout, int64_t cap_bytes,
                       int64_t first_cap_bytes) {
  CHECK_GT(cap_bytes, 0);
  CHECK_GT(first_cap_bytes, 0);
  const std::vector<Tensor>& tensors = layout.tensors();
  BucketPlan plan;
  plan.bucket_of_tensor.resize(tensors.size());
  if (layout.count() == 0) return plan;
  for (int t = static_cast<int>(tensors.size()) - 1; t >= 0; --t) {
    const Range& range = tensors[t].range;
    const int64_t cap = plan.buckets.size() > 1 ? cap_bytes : first_cap_bytes;
    const bool fits =
        !plan.buckets.empty() &&
        (plan.buckets.back().range.count == 0 ||
         (plan.buckets.back().range.count + range.count) * int64_t{sizeof(float)} <= cap);
    if (!fits) {
      plan.buckets.push_back({.index = static_cast<int>(plan.buckets.size()),
                              .first_tensor = t,
                              .tensor_count = 0,
                              .range = {.begin = range.end(), .count = 0}});
    }
    Bucket& bucket = plan.buckets.back();
    bucket.first_tensor = t;
    ++bucket.tensor_count;
    bucket.range.begin = range.begin;
    bucket.range.count += range.count;
    plan.bucket_of_tensor[t] = bucket.index;
  }
  return plan;
}

}  // namespace psring
