#include "common/cpu_device.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/activation.h"
#include "common/vectorize.h"
#include "glog/logging.h"
#include "oneapi/dnnl/dnnl.hpp"

namespace psring {
namespace {

using dnnl::memory;

// A cache line, and the widest vector.
constexpr size_t kAlignment = 64;

// One oneDNN primitive with its arguments' descriptions.
struct Operation {
  dnnl::primitive primitive;
  std::unordered_map<int, memory::desc> descriptions;
};

PSRING_VECTORIZED
void MaskByOutput(const float* output, float* gradient, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    gradient[i] = ReluGradient(output[i], gradient[i]);
  }
}

class CpuDevice final : public Device {
 public:
  CpuDevice() : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    omp_set_num_threads(1);
  }

  absl::StatusOr<DeviceBuffer> Allocate(int64_t count) override {
    const size_t bytes = std::max<size_t>(count, 1) * sizeof(float);
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    float* data = static_cast<float*>(std::aligned_alloc(kAlignment, rounded));
    if (data == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory for ", rounded, " bytes"));
    }
    std::memset(data, 0, rounded);
    return DeviceBuffer({.data = data, .count = count}, [data] { std::free(data); });
  }

  ReadyEvent Record() override { return ReadyEvent::Happened(); }

  absl::Status LinearForward(const LinearShape& s, DeviceSpan input, DeviceSpan weights,
                             DeviceSpan bias, bool relu, DeviceSpan output) override {
    return Run(Kind::kForward, s, relu,
               {{DNNL_ARG_SRC, input},
                {DNNL_ARG_WEIGHTS, weights},
                {DNNL_ARG_BIAS, bias},
                {DNNL_ARG_DST, output}});
  }

  absl::Status ReluBackward(DeviceSpan output, DeviceSpan gradient) override {
    CHECK_EQ(output.count, gradient.count);
    MaskByOutput(output.data, gradient.data, gradient.count);
    return absl::OkStatus();
  }

  absl::Status LinearBackwardParameters(const LinearShape& s, DeviceSpan input,
                                        DeviceSpan output_gradient,
                                        DeviceSpan weights_gradient,
                                        DeviceSpan bias_gradient) override {
    if (absl::Status status = Run(Kind::kBackwardWeights, s, false,
                                  {{DNNL_ARG_SRC, input},
                                   {DNNL_ARG_WEIGHTS, output_gradient},
                                   {DNNL_ARG_DST, weights_gradient}});
        !status.ok()) {
      return status;
    }
    // The sum over rows as a product with ones: oneDNN's own reduction is a reference
    // implementation, twenty times slower.
    if (static_cast<int64_t>(ones_.size()) < s.rows) ones_.assign(s.rows, 1.0f);
    return Run(Kind::kBackwardBias, s, false,
               {{DNNL_ARG_SRC, {.data = ones_.data(), .count = s.rows}},
                {DNNL_ARG_WEIGHTS, output_gradient},
                {DNNL_ARG_DST, bias_gradient}});
  }

  absl::Status LinearBackwardInput(const LinearShape& s, DeviceSpan weights,
                                   DeviceSpan output_gradient,
                                   DeviceSpan input_gradient) override {
    return Run(Kind::kBackwardInput, s, false,
               {{DNNL_ARG_SRC, output_gradient},
                {DNNL_ARG_WEIGHTS, weights},
                {DNNL_ARG_DST, input_gradient}});
  }

  absl::StatusOr<double> SoftmaxCrossEntropy(int64_t rows, int64_t classes,
                                             std::span<const int32_t> labels,
                                             DeviceSpan logits) override {
    CHECK_EQ(static_cast<int64_t>(labels.size()), rows);
    const LinearShape shape{.rows = rows, .inputs = 0, .outputs = classes};
    if (absl::Status status = Run(Kind::kLogSoftmax, shape, false,
                                  {{DNNL_ARG_SRC, logits}, {DNNL_ARG_DST, logits}});
        !status.ok()) {
      return status;
    }
    // d(mean loss)/d(logits) = (softmax - one-hot) / rows.
    double loss = 0;
    const float scale = 1.0f / static_cast<float>(rows);
    for (int64_t row = 0; row < rows; ++row) {
      float* values = logits.data + row * classes;
      loss -= values[labels[row]];
      for (int64_t c = 0; c < classes; ++c) values[c] = std::exp(values[c]) * scale;
      values[labels[row]] -= scale;
    }
    return loss / static_cast<double>(rows);
  }

 private:
  enum class Kind {
    kForward,
    kBackwardWeights,
    kBackwardBias,
    kBackwardInput,
    kLogSoftmax
  };
  using Argument = std::pair<int, DeviceSpan>;

  // A dense matrix [rows, columns], or, transposed, the transpose of the row-major
  // matrix [columns, rows] that lies in memory.
  static memory::desc Matrix(int64_t rows, int64_t columns, bool transposed = false) {
    return {{rows, columns},
            memory::data_type::f32,
            transposed ? memory::format_tag::ba : memory::format_tag::ab};
  }

  Operation MatMul(memory::desc a, memory::desc b, memory::desc c) {
    const dnnl::matmul::primitive_desc pd(dnnl::matmul::desc(a, b, c), engine_);
    return {dnnl::matmul(pd),
            {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}}};
  }

  Operation Make(Kind kind, const LinearShape& s, bool relu) {
    switch (kind) {
      case Kind::kForward: {
        const auto input = Matrix(s.rows, s.inputs),
                   weights = Matrix(s.inputs, s.outputs), bias = Matrix(1, s.outputs),
                   output = Matrix(s.rows, s.outputs);
        dnnl::primitive_attr attributes;
        if (relu) {
          dnnl::post_ops post_ops;
          post_ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
          attributes.set_post_ops(post_ops);
        }
        const dnnl::matmul::primitive_desc pd(
            dnnl::matmul::desc(input, weights, bias, output), attributes, engine_);
        return {dnnl::matmul(pd),
                {{DNNL_ARG_SRC, input},
                 {DNNL_ARG_WEIGHTS, weights},
                 {DNNL_ARG_BIAS, bias},
                 {DNNL_ARG_DST, output}}};
      }
      case Kind::kBackwardWeights:
        return MatMul(Matrix(s.inputs, s.rows, true), Matrix(s.rows, s.outputs),
                      Matrix(s.inputs, s.outputs));
      case Kind::kBackwardInput:
        return MatMul(Matrix(s.rows, s.outputs), Matrix(s.outputs, s.inputs, true),
                      Matrix(s.rows, s.inputs));
      case Kind::kBackwardBias:
        return MatMul(Matrix(1, s.rows), Matrix(s.rows, s.outputs), Matrix(1, s.outputs));
      case Kind::kLogSoftmax: {
        const auto logits = Matrix(s.rows, s.outputs);
        const dnnl::logsoftmax_forward::primitive_desc pd(
            dnnl::logsoftmax_forward::desc(dnnl::prop_kind::forward_inference, logits, 1),
            engine_);
        return {dnnl::logsoftmax_forward(pd),
                {{DNNL_ARG_SRC, logits}, {DNNL_ARG_DST, logits}}};
      }
    }
    LOG(FATAL) << "no such operation";
  }

  absl::Status Run(Kind kind, const LinearShape& s, bool relu,
                   std::initializer_list<Argument> arguments) {
    try {
      const auto key = std::make_tuple(kind, s.rows, s.inputs, s.outputs, relu);
      auto it = operations_.find(key);
      if (it == operations_.end()) {
        it = operations_.emplace(key, Make(kind, s, relu)).first;
      }
      const Operation& operation = it->second;
      std::unordered_map<int, memory> memories;
      for (const auto& [position, span] : arguments) {
        const memory::desc& description = operation.descriptions.at(position);
        CHECK_EQ(description.get_size(), span.count * sizeof(float))
            << "argument " << position << " has the wrong size";
        memories.emplace(position, memory(description, engine_, span.data));
      }
      operation.primitive.execute(stream_, memories);
      stream_.wait();
      return absl::OkStatus();
    } catch (const dnnl::error& error) {
      return absl::InternalError(absl::StrCat("oneDNN: ", error.what(), " (rows ", s.rows,
                                              ", inputs ", s.inputs, ", outputs ",
                                              s.outputs, ")"));
    }
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  std::vector<float> ones_;
  std::map<std::tuple<Kind, int64_t, int64_t, int64_t, bool>, Operation> operations_;
};

}  // namespace

std::unique_ptr<Device> MakeCpuDevice() { return std::make_unique<CpuDevice>(); }

}  // namespace psring
