#include "common/optimizer.h"

#include <utility>

#include "common/update_factors.h"
#include "common/update_rule.h"
#include "common/vectorize.h"
#include "glog/logging.h"

namespace psring {
namespace {

// A loop for each rule, so that common/vectorize.h can have clones made of it.

PSRING_VECTORIZED
void ApplySgd(float* __restrict parameters, const float* __restrict gradient,
              UpdateFactors f, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    SgdUpdate::Apply(f, gradient[i], parameters + i, nullptr, nullptr);
  }
}

PSRING_VECTORIZED
void ApplyMomentum(float* __restrict parameters, float* __restrict velocity,
                   const float* __restrict gradient, UpdateFactors f, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    MomentumUpdate::Apply(f, gradient[i], parameters + i, velocity + i, nullptr);
  }
}

PSRING_VECTORIZED
void ApplyNesterov(float* __restrict parameters, float* __restrict velocity,
                   const float* __restrict gradient, UpdateFactors f, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    NesterovUpdate::Apply(f, gradient[i], parameters + i, velocity + i, nullptr);
  }
}

PSRING_VECTORIZED
void ApplyAdam(float* __restrict parameters, float* __restrict first,
               float* __restrict second, const float* __restrict gradient,
               UpdateFactors f, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    AdamUpdate::Apply(f, gradient[i], parameters + i, first + i, second + i);
  }
}

PSRING_VECTORIZED
void ApplyAdagrad(float* __restrict parameters, float* __restrict sum,
                  const float* __restrict gradient, UpdateFactors f, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    AdagradUpdate::Apply(f, gradient[i], parameters + i, nullptr, sum + i);
  }
}

struct StateKept {
  bool first = false;
  bool second = false;
};

StateKept StateOf(const Optimizer& settings) {
  const auto of = [](auto rule) {
    return StateKept{.first = rule.kHasFirst, .second = rule.kHasSecond};
  };
  switch (RuleOf(settings)) {
    case UpdateRule::kSgd:
      return of(SgdUpdate());
    case UpdateRule::kMomentum:
      return of(MomentumUpdate());
    case UpdateRule::kNesterov:
      return of(NesterovUpdate());
    case UpdateRule::kAdam:
      return of(AdamUpdate());
    case UpdateRule::kAdagrad:
      return of(AdagradUpdate());
  }
  LOG(FATAL) << "no such rule";
}

}  // namespace

int64_t OptimizerStateBytesPerElement(const Optimizer& settings) {
  const StateKept kept = StateOf(settings);
  return int64_t{sizeof(float)} * (int64_t{kept.first} + int64_t{kept.second});
}

SliceOptimizer::SliceOptimizer(const Optimizer& settings, int64_t count,
                               std::shared_ptr<MemoryGauge> gauge)
    : settings_(settings), count_(count) {
  const StateKept kept = StateOf(settings_);
  if (kept.first) first_.assign(count, 0.0f);
  // Zero but for Adagrad.
  if (kept.second) second_.assign(count, settings_.adagrad().initial_accumulator());
  claim_ = MemoryClaim(std::move(gauge), state_bytes());
}

std::vector<std::span<float>> SliceOptimizer::state() {
  const StateKept kept = StateOf(settings_);
  std::vector<std::span<float>> arrays;
  if (kept.first) arrays.emplace_back(first_);
  if (kept.second) arrays.emplace_back(second_);
  return arrays;
}

void SliceOptimizer::Apply(const StepConstants& constants, int64_t offset,
                           std::span<float> parameters, std::span<const float> gradient) {
  const auto count = static_cast<int64_t>(parameters.size());
  CHECK_EQ(parameters.size(), gradient.size());
  CHECK(offset >= 0 && offset + count <= count_);
  float* const p = parameters.data();
  const float* const g = gradient.data();
  float* const first = first_.data() + (first_.empty() ? 0 : offset);
  float* const second = second_.data() + (second_.empty() ? 0 : offset);
  const UpdateFactors factors = FactorsOf(settings_, constants);
  switch (RuleOf(settings_)) {
    case UpdateRule::kSgd:
      return ApplySgd(p, g, factors, count);
    case UpdateRule::kMomentum:
      return ApplyMomentum(p, first, g, factors, count);
    case UpdateRule::kNesterov:
      return ApplyNesterov(p, first, g, factors, count);
    case UpdateRule::kAdam:
      return ApplyAdam(p, first, second, g, factors, count);
    case UpdateRule::kAdagrad:
      return ApplyAdagrad(p, second, g, factors, count);
  }
  LOG(FATAL) << "no such rule";
}

}  // namespace psring
