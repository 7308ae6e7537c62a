#include "worker/mlp.h"

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace psring {
namespace {

class Mlp final : public Model {
 public:
  Mlp(Device* device, std::vector<int64_t> widths, int64_t max_rows, int64_t branches)
      : device_(device),
        widths_(std::move(widths)),
        max_rows_(max_rows),
        branches_(static_cast<int>(branches)),
        layout_(MlpLayout(widths_, branches)) {
    unused_.reserve(layout_.tensors().size());
  }

  absl::Status Allocate() {
    int64_t widest = 0;
    for (int layer = 0; layer < layers(); ++layer) {
      widest = std::max(widest, widths_[layer + 1]);
      ASSIGN_OR_RETURN(DeviceBuffer output,
                       device_->Allocate(max_rows_ * widths_[layer + 1]));
      outputs_.push_back(std::move(output));
    }
    for (DeviceBuffer& gradient : gradients_of_outputs_) {
      ASSIGN_OR_RETURN(gradient, device_->Allocate(max_rows_ * widest));
    }
    return absl::OkStatus();
  }

  const ParameterLayout& layout() const override { return layout_; }

  void Bind(DeviceSpan parameters, DeviceSpan gradients) override {
    CHECK_EQ(parameters.count, layout_.count());
    CHECK(gradients.count == layout_.count() || gradients.count == 0);
    parameters_ = parameters;
    gradients_ = gradients;
  }

  absl::StatusOr<double> Forward(const Batch& batch) override {
    CHECK_LE(batch.rows, max_rows_);
    CHECK_EQ(batch.features.count, batch.rows * widths_[0]);
    batch_ = batch;
    if (branches_ > 1) Choose(batch.labels[0] % branches_);
    for (int layer = 0; layer < layers(); ++layer) {
      RETURN_IF_ERROR(device_->LinearForward(
          Shape(layer), Input(layer), Weights(parameters_, layer),
          Bias(parameters_, layer), /*relu=*/layer + 1 < layers(), Output(layer)));
    }
    const int64_t classes = widths_.back();
    CountCorrect(classes);
    return device_->SoftmaxCrossEntropy(batch.rows, classes, batch.labels,
                                        Output(layers() - 1));
  }

  // Forward has left the gradient of the logits in their place. On the way down two
  // buffers take turns: the gradient of a layer's output comes from one, that of its
  // input goes into the other.
  absl::Status Backward(absl::FunctionRef<void(int tensor)> ready) override {
    CHECK_EQ(gradients_.count, layout_.count()) << "bound without gradients";
    DeviceSpan gradient = Output(layers() - 1);
    for (int layer = layers() - 1; layer >= 0; --layer) {
      const LinearShape shape = Shape(layer);
      if (layer + 1 < layers()) {
        RETURN_IF_ERROR(device_->ReluBackward(Output(layer), gradient));
      }
      RETURN_IF_ERROR(device_->LinearBackwardParameters(shape, Input(layer), gradient,
                                                        Weights(gradients_, layer),
                                                        Bias(gradients_, layer)));
      ready(WeightsIndex(layer) + 1);  // The bias: no one reads it any more in this step.
      if (layer > 0) {
        const DeviceSpan input_gradient = gradients_of_outputs_[layer % 2].span().Slice(
            {.begin = 0, .count = shape.rows * shape.inputs});
        RETURN_IF_ERROR(device_->LinearBackwardInput(shape, Weights(parameters_, layer),
                                                     gradient, input_gradient));
        gradient = input_gradient;
      }
      ready(WeightsIndex(layer));  // The weights, which the line above still needed.
    }
    return absl::OkStatus();
  }

  std::span<const int> unused() const override { return unused_; }

  int64_t correct() const override { return correct_; }

 private:
  int layers() const { return static_cast<int>(widths_.size()) - 1; }
  LinearShape Shape(int layer) const {
    return {.rows = batch_.rows, .inputs = widths_[layer], .outputs = widths_[layer + 1]};
  }
  DeviceSpan Output(int layer) const {
    return outputs_[layer].span().Slice(
        {.begin = 0, .count = batch_.rows * widths_[layer + 1]});
  }
  DeviceSpan Input(int layer) const {
    return layer == 0 ? batch_.features : Output(layer - 1);
  }
  // In the layout, where the bias comes next. The last hidden layer is the one before the
  // last layer.
  int WeightsIndex(int layer) const { return WeightsIndex(layer, branch_); }
  int WeightsIndex(int layer, int branch) const {
    const int last_hidden = layers() - 2;
    if (layer < last_hidden) return 2 * layer;
    return 2 * (layer + (layer == last_hidden ? branch : branches_ - 1));
  }
  DeviceSpan Weights(DeviceSpan flat, int layer) const {
    return flat.Slice(layout_.tensors()[WeightsIndex(layer)].range);
  }
  DeviceSpan Bias(DeviceSpan flat, int layer) const {
    return flat.Slice(layout_.tensors()[WeightsIndex(layer) + 1].range);
  }

  void Choose(int branch) {
    branch_ = branch;
    unused_.clear();
    for (int other = 0; other < branches_; ++other) {
      if (other == branch) continue;
      const int weights = WeightsIndex(layers() - 2, other);
      unused_.push_back(weights);
      unused_.push_back(weights + 1);
    }
  }

  void CountCorrect(int64_t classes) {
    device_->Record().Wait();
    const std::span<const float> logits = Output(layers() - 1).host();
    correct_ = 0;
    for (int64_t row = 0; row < batch_.rows; ++row) {
      const auto values = logits.subspan(row * classes, classes);
      const auto top = std::max_element(values.begin(), values.end());
      correct_ += top - values.begin() == batch_.labels[row];
    }
  }

  Device* const device_;
  const std::vector<int64_t> widths_;
  const int64_t max_rows_;
  const int branches_;
  const ParameterLayout layout_;
  DeviceSpan parameters_;
  DeviceSpan gradients_;
  Batch batch_;
  std::vector<DeviceBuffer> outputs_;  // [max_rows, outputs] per layer.
  DeviceBuffer gradients_of_outputs_[2];
  int64_t correct_ = 0;
  // Of the last Forward.
  int branch_ = 0;
  std::vector<int> unused_;
};

}  // namespace

ParameterLayout MlpLayout(const std::vector<int64_t>& widths, int64_t branches) {
  CHECK(branches == 1 || (branches > 1 && widths.size() > 2)) << branches;
  ParameterLayout layout;
  for (size_t layer = 0; layer + 1 < widths.size(); ++layer) {
    const auto add = [&](const std::string& name) {
      layout.Add(absl::StrCat(name, ".weight"), {widths[layer], widths[layer + 1]});
      layout.Add(absl::StrCat(name, ".bias"), {widths[layer + 1]});
    };
    const std::string name = absl::StrCat("layer", layer);
    if (branches == 1 || layer + 3 != widths.size()) {
      add(name);
      continue;
    }
    for (int64_t branch = 0; branch < branches; ++branch) {
      add(absl::StrCat(name, ".branch", branch));
    }
  }
  return layout;
}

absl::StatusOr<std::unique_ptr<Model>> MakeMlp(Device* device,
                                               std::vector<int64_t> widths,
                                               int64_t max_rows, int64_t branches) {
  auto model = std::make_unique<Mlp>(device, std::move(widths), max_rows, branches);
  RETURN_IF_ERROR(model->Allocate());
  return model;
}

}  // namespace psring
