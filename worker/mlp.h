// A multi-layer perceptron with ReLU, and softmax cross-entropy as its loss.
#ifndef PSRING_WORKER_MLP_H_
#define PSRING_WORKER_MLP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/device.h"
#include "worker/model.h"

namespace psring {

// Tensors "layer0.weight" [inputs, outputs], "layer0.bias" [outputs], "layer1.weight"...
// for widths {features, hidden..., classes}.
ParameterLayout MlpLayout(const std::vector<int64_t>& widths);

// Takes batches of at most `max_rows`. `device` outlives the model. Errors:
// ResourceExhausted, no memory for the activations.
absl::StatusOr<std::unique_ptr<Model>> MakeMlp(Device* device,
                                               std::vector<int64_t> widths,
                                               int64_t max_rows);

}  // namespace psring

#endif  // PSRING_WORKER_MLP_H_
