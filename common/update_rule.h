// How an optimizer updates one element, on processors and GPUs. The formulas are those of
// proto/experiment.proto; common/optimizer.h says where they come from.
#ifndef PSRING_COMMON_UPDATE_RULE_H_
#define PSRING_COMMON_UPDATE_RULE_H_

#include <math.h>

#include "common/host_device.h"

namespace psring {

enum class UpdateRule { kSgd, kMomentum, kNesterov, kAdam, kAdagrad };

// What an update needs besides the element; common/update_factors.h makes them.
struct UpdateFactors {
  float learning_rate = 0;
  float gradient_decay = 0;  // Times the parameter, added to the gradient.
  // Of SGD.
  float momentum = 0;
  // Of Adam and AdamW.
  float beta1 = 0, new1 = 0;  // The old mean's weight and the new term's.
  float beta2 = 0, new2 = 0;
  float keep = 1;  // Of the parameter, before the step.
  float step_size = 0;
  float root_scale = 0;
  // Of all that divide.
  float epsilon = 0;
};

// Each rule has one form, so that a loop or a kernel can be written for all: it updates
// the parameter and those of the two kinds of state that it has; the other may be null.

struct SgdUpdate {
  static constexpr bool kHasFirst = false, kHasSecond = false;
  static PSRING_HOST_DEVICE void Apply(const UpdateFactors& f, float gradient,
                                       float* parameter, float*, float*) {
    *parameter -= f.learning_rate * (gradient + f.gradient_decay * *parameter);
  }
};

struct MomentumUpdate {
  static constexpr bool kHasFirst = true, kHasSecond = false;
  static PSRING_HOST_DEVICE void Apply(const UpdateFactors& f, float gradient,
                                       float* parameter, float* velocity, float*) {
    *velocity = f.momentum * *velocity + (gradient + f.gradient_decay * *parameter);
    *parameter -= f.learning_rate * *velocity;
  }
};

struct NesterovUpdate {
  static constexpr bool kHasFirst = true, kHasSecond = false;
  static PSRING_HOST_DEVICE void Apply(const UpdateFactors& f, float gradient,
                                       float* parameter, float* velocity, float*) {
    const float g = gradient + f.gradient_decay * *parameter;
    *velocity = f.momentum * *velocity + g;
    *parameter -= f.learning_rate * (g + f.momentum * *velocity);
  }
};

// Adam and AdamW: one decays through the gradient, the other through `keep`.
struct AdamUpdate {
  static constexpr bool kHasFirst = true, kHasSecond = true;
  static PSRING_HOST_DEVICE void Apply(const UpdateFactors& f, float gradient,
                                       float* parameter, float* first, float* second) {
    const float g = gradient + f.gradient_decay * *parameter;
    *first = f.beta1 * *first + f.new1 * g;
    *second = f.beta2 * *second + f.new2 * (g * g);
    *parameter = f.keep * *parameter -
                 f.step_size * *first / (f.root_scale * sqrtf(*second) + f.epsilon);
  }
};

struct AdagradUpdate {
  static constexpr bool kHasFirst = false, kHasSecond = true;
  static PSRING_HOST_DEVICE void Apply(const UpdateFactors& f, float gradient,
                                       float* parameter, float*, float* sum) {
    const float g = gradient + f.gradient_decay * *parameter;
    *sum += g * g;
    *parameter -= f.learning_rate * g / (sqrtf(*sum) + f.epsilon);
  }
};

}  // namespace psring

#endif  // PSRING_COMMON_UPDATE_RULE_H_
