// max(0, .), on processors and GPUs.
#ifndef PSRING_COMMON_ACTIVATION_H_
#define PSRING_COMMON_ACTIVATION_H_

#include "common/host_device.h"

namespace psring {

// 0, not -0, for what is not above 0; what is not a number stays that, so that the loss
// tells of it.
PSRING_HOST_DEVICE float Relu(float value) { return value <= 0 ? 0.0f : value; }

// The way back: the gradient of the input, from Relu's output and its gradient.
PSRING_HOST_DEVICE float ReluGradient(float output, float gradient) {
  return output > 0 ? gradient : 0.0f;
}

}  // namespace psring

#endif  // PSRING_COMMON_ACTIVATION_H_
