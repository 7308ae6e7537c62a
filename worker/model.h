// The seam to whatever is trained.
#ifndef PSRING_WORKER_MODEL_H_
#define PSRING_WORKER_MODEL_H_

#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/device_span.h"
#include "common/layout.h"

namespace psring {

struct Batch {
  int64_t rows = 0;
  DeviceSpan features;              // [rows, features], row-major, on the model's device.
  std::span<const int32_t> labels;  // [rows], host memory.
};

// Written once, against Device. One thread; Bind first, then Forward and Backward in
// turns.
class Model {
 public:
  virtual ~Model() = default;

  virtual const ParameterLayout& layout() const = 0;

  // The flat buffers to read parameters from and write gradients to, both of the
  // layout's count; an empty `gradients` where there is only Forward to come.
  virtual void Bind(DeviceSpan parameters, DeviceSpan gradients) = 0;

  // Mean loss over the batch; not a number where the model has none. The batch stays
  // valid until Backward has returned.
  virtual absl::StatusOr<double> Forward(const Batch& batch) = 0;

  // Tensors that the last Forward has made no use of, in ascending order; valid until the
  // next one. Nothing depends on them, and Backward leaves their gradients alone.
  virtual std::span<const int> unused() const { return {}; }

  // Gradients of that loss, last tensor first. ready(t) is called in this thread once
  // per tensor that has been used, with t an index into layout().tensors(): gradient t is
  // final, and parameter t has no further use in this step, because its new value may
  // arrive at once.
  virtual absl::Status Backward(absl::FunctionRef<void(int tensor)> ready) = 0;

  // How many rows of the last Forward had their label on top.
  virtual int64_t correct() const = 0;
};

// Initial parameters, from the seed and the layout alone: the same on every process.
// Weights are uniform in +-sqrt(6 / inputs) (He et al., 2015), where `inputs` is the
// first dimension; tensors of one dimension (biases) are zero.
void InitializeParameters(const ParameterLayout& layout, uint64_t seed,
                          std::span<float> parameters);

}  // namespace psring

#endif  // PSRING_WORKER_MODEL_H_
