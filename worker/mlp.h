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
// for widths {features, hidden..., classes}. With several branches the last hidden layer
// exists so often: "layer1.branch0.weight", "layer1.branch0.bias",
// "layer1.branch1.weight"... Requires branches >= 1, and a hidden layer where there are
// several.
ParameterLayout MlpLayout(const std::vector<int64_t>& widths, int64_t branches = 1);

// Takes batches of at most `max_rows`. Of several branches each batch, of at least one
// row, goes through one: the label of its first row, modulo branches. The others are
// unused. `device` outlives the model. Errors:
// ResourceExhausted, no memory for the activations.
absl::StatusOr<std::unique_ptr<Model>> MakeMlp(Device* device,
                                               std::vector<int64_t> widths,
                                               int64_t max_rows, int64_t branches = 1);

}  // namespace psring

#endif  // PSRING_WORKER_MLP_H_
