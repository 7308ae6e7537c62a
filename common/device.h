// The seam to whatever computes: memory, and the few layers that models are made of.
#ifndef PSRING_COMMON_DEVICE_H_
#define PSRING_COMMON_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/device_span.h"

namespace psring {

// Floats in a device's memory, owned by all copies of the buffer together.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceSpan span, std::function<void()> free)
      : span_(span), memory_(span.data, [free = std::move(free)](float*) { free(); }) {}

  DeviceSpan span() const { return span_; }
  int64_t bytes() const { return span_.count * int64_t{sizeof(float)}; }

 private:
  DeviceSpan span_;
  std::shared_ptr<float> memory_;
};

// A fully connected layer on `rows` samples: output = input * weights + bias. Matrices
// are dense and row-major: input [rows, inputs], weights [inputs, outputs], bias
// [outputs], output [rows, outputs].
struct LinearShape {
  int64_t rows = 0;
  int64_t inputs = 0;
  int64_t outputs = 0;
};

// Work is issued by one thread and done in the order of the calls; results may be read
// after Record().Wait(), or at once by later calls. Spans are this device's memory, have
// the shapes that are said, and overlap only where said. The same calls give the same
// bits on the same machine.
class Device {
 public:
  virtual ~Device() = default;

  // `count` floats, zero. ResourceExhausted: there is no memory for them.
  virtual absl::StatusOr<DeviceBuffer> Allocate(int64_t count) = 0;
  // The event of everything called so far.
  virtual ReadyEvent Record() = 0;

  // output = input * weights + bias, then max(0, .) where `relu`.
  virtual absl::Status LinearForward(const LinearShape& shape, DeviceSpan input,
                                     DeviceSpan weights, DeviceSpan bias, bool relu,
                                     DeviceSpan output) = 0;
  // gradient = gradient where output > 0, else 0: the way back through max(0, .).
  virtual absl::Status ReluBackward(DeviceSpan output, DeviceSpan gradient) = 0;
  // From the gradient of the layer's output [rows, outputs]: overwrites the gradients of
  // its weights and bias.
  virtual absl::Status LinearBackwardParameters(const LinearShape& shape,
                                                DeviceSpan input,
                                                DeviceSpan output_gradient,
                                                DeviceSpan weights_gradient,
                                                DeviceSpan bias_gradient) = 0;
  // The same for the gradient of its input [rows, inputs].
  virtual absl::Status LinearBackwardInput(const LinearShape& shape, DeviceSpan weights,
                                           DeviceSpan output_gradient,
                                           DeviceSpan input_gradient) = 0;

  // Mean over rows of the cross-entropy between softmax(logits) [rows, classes] and
  // `labels` (host memory, each in [0, classes)); overwrites the logits with the mean's
  // gradient. Blocks until the loss is known.
  virtual absl::StatusOr<double> SoftmaxCrossEntropy(int64_t rows, int64_t classes,
                                                     std::span<const int32_t> labels,
                                                     DeviceSpan logits) = 0;
};

}  // namespace psring

#endif  // PSRING_COMMON_DEVICE_H_
