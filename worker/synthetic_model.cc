#include "worker/synthetic_model.h"

#include <limits>
#include <utility>

#include "common/vectorize.h"
#include "glog/logging.h"

namespace psring {
namespace {

// Multiples of the golden ratio, modulo 1, are spread evenly; steps start elsewhere.
constexpr uint32_t kPerElement = 0x9e3779b1u;
constexpr uint32_t kPerStep = 0x85ebca77u;

constexpr float Unit(int rank) { return static_cast<float>(rank + 1) / 1024; }

inline float Multiple(uint32_t step, uint32_t element) {
  const uint32_t spread = element * kPerElement + step * kPerStep;
  const auto number = static_cast<int32_t>(spread >> 26) - 32;  // -32 to 31
  return static_cast<float>(number + (number >= 0 ? 1 : 0));
}

PSRING_VECTORIZED
void Fill(float unit, uint32_t step, uint32_t first_element, int64_t count,
          float* gradients) {
  for (int64_t i = 0; i < count; ++i) {
    gradients[i] = unit * Multiple(step, first_element + static_cast<uint32_t>(i));
  }
}

class SyntheticModel final : public Model {
 public:
  SyntheticModel(ParameterLayout layout, int rank, int64_t passes, int64_t first_step)
      : layout_(std::move(layout)),
        rank_(rank),
        passes_(passes),
        first_step_(first_step) {}

  const ParameterLayout& layout() const override { return layout_; }

  void Bind(DeviceSpan, DeviceSpan gradients) override {
    CHECK(gradients.count == layout_.count() || gradients.count == 0);
    gradients_ = gradients;
  }

  absl::StatusOr<double> Forward(const Batch&) override {
    step_ = first_step_ + forwards_++ / passes_;
    return std::numeric_limits<double>::quiet_NaN();
  }

  absl::Status Backward(absl::FunctionRef<void(int tensor)> ready) override {
    CHECK_EQ(gradients_.count, layout_.count()) << "bound without gradients";
    for (int t = static_cast<int>(layout_.tensors().size()) - 1; t >= 0; --t) {
      const Range range = layout_.tensors()[t].range;
      Fill(Unit(rank_), static_cast<uint32_t>(step_), static_cast<uint32_t>(range.begin),
           range.count, gradients_.Slice(range).host().data());
      ready(t);
    }
    return absl::OkStatus();
  }

  int64_t correct() const override { return 0; }

 private:
  const ParameterLayout layout_;
  const int rank_;
  const int64_t passes_;
  const int64_t first_step_;
  DeviceSpan gradients_;
  int64_t forwards_ = 0;
  int64_t step_ = -1;
};

}  // namespace

float SyntheticGradient(int rank, int64_t step, int64_t element) {
  return Unit(rank) *
         Multiple(static_cast<uint32_t>(step), static_cast<uint32_t>(element));
}

std::unique_ptr<Model> MakeSyntheticModel(ParameterLayout layout, int rank,
                                          int64_t passes, int64_t first_step) {
  return std::make_unique<SyntheticModel>(std::move(layout), rank, passes, first_step);
}

}  // namespace psring
