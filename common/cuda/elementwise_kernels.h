// Kernels in which each element is for itself. They give the bits of the processor's
// functions of the same name, because both call the same function of one element.
#ifndef PSRING_COMMON_CUDA_ELEMENTWISE_KERNELS_H_
#define PSRING_COMMON_CUDA_ELEMENTWISE_KERNELS_H_

#include <cstdint>

#include "common/activation.h"
#include "common/cuda/kernel_call.h"
#include "common/cuda/vector_cut.h"
#include "common/sixteen_bits.h"
#include "common/sixteen_bits_rounding.h"
#include "common/update_rule.h"

namespace psring {

// A kernel of an element: struct with `cut` and At.
template <typename Element>
struct ElementwiseKernel {
  static constexpr int kThreads = 256;
  template <typename Thread>
  using Shared = NothingShared;

  Element element;

  template <typename Thread>
  PSRING_DEVICE void operator()(Thread& thread, NothingShared&) const {
    ForEach(thread, element.cut, element);
  }
};

template <typename Element>
KernelCall<ElementwiseKernel<Element>> CallElementwise(const Element& element) {
  return {.kernel = {.element = element},
          .blocks = BlocksFor(element.cut, ElementwiseKernel<Element>::kThreads)};
}

// values[i] = values[i] + bias[i % columns], then Relu where `relu`.
struct AddBias {
  VectorCut cut;
  int64_t columns = 0;
  const float* bias = nullptr;
  bool relu = false;
  float* values = nullptr;

  template <int kWidth, typename Thread>
  PSRING_DEVICE void At(Thread& thread, int64_t i) const {
    auto pack = thread.template Load<kWidth>(values + i);
    int64_t column = i % columns;
    for (int k = 0; k < kWidth; ++k) {
      const float sum = pack.at[k] + bias[column];
      pack.at[k] = relu ? Relu(sum) : sum;
      if (++column == columns) column = 0;
    }
    thread.Store(values + i, pack);
  }
};

// gradient[i] = ReluGradient(output[i], gradient[i]).
struct MaskGradient {
  VectorCut cut;
  const float* output = nullptr;
  float* gradient = nullptr;

  template <int kWidth, typename Thread>
  PSRING_DEVICE void At(Thread& thread, int64_t i) const {
    const auto outputs = thread.template Load<kWidth>(output + i);
    auto pack = thread.template Load<kWidth>(gradient + i);
    for (int k = 0; k < kWidth; ++k) {
      pack.at[k] = ReluGradient(outputs.at[k], pack.at[k]);
    }
    thread.Store(gradient + i, pack);
  }
};

// sum[i] = sum[i] + addend[i].
struct AddTo {
  VectorCut cut;
  const float* addend = nullptr;
  float* sum = nullptr;

  template <int kWidth, typename Thread>
  PSRING_DEVICE void At(Thread& thread, int64_t i) const {
    const auto addends = thread.template Load<kWidth>(addend + i);
    auto pack = thread.template Load<kWidth>(sum + i);
    for (int k = 0; k < kWidth; ++k) pack.at[k] += addends.at[k];
    thread.Store(sum + i, pack);
  }
};

// values[i] *= factor.
struct ScaleBy {
  VectorCut cut;
  float factor = 1;
  float* values = nullptr;

  template <int kWidth, typename Thread>
  PSRING_DEVICE void At(Thread& thread, int64_t i) const {
    auto pack = thread.template Load<kWidth>(values + i);
    for (int k = 0; k < kWidth; ++k) pack.at[k] *= factor;
    thread.Store(values + i, pack);
  }
};

// What FindBeyondKernel leaves where there is nothing to be found.
inline constexpr uint64_t kNothingFound = ~uint64_t{0};

// Where *found is not kNothingFound, values[i] = 0 for all i, and *zeroed is one more.
struct ZeroWhereFound {
  VectorCut cut;
  const uint64_t* found = nullptr;
  float* values = nullptr;
  uint64_t* zeroed = nullptr;

  template <int kWidth, typename Thread>
  PSRING_DEVICE void At(Thread& thread, int64_t i) const {
    if (*found == kNothingFound) return;
    thread.Store(values + i, Pack<float, kWidth>{});
    if (i == 0) thread.AtomicAdd(zeroed, 1);
  }
};

// rounded[i] = values[i] * factor, rounded to Type (Bf16, Fp16).
template <typename Type>
struct RoundValues {
  VectorCut cut;
  const float* values = nullptr;
  float factor = 1;
  uint16_t* rounded = nullptr;

  template <int kWidth, typename Thread>
  PSRING_DEVICE void At(Thread& thread, int64_t i) const {
    const auto from = thread.template Load<kWidth>(values + i);
    Pack<uint16_t, kWidth> to;
    for (int k = 0; k < kWidth; ++k) to.at[k] = Type::Round(from.at[k] * factor);
    thread.Store(rounded + i, to);
  }
};

template <typename Type>
struct WidenValues {
  VectorCut cut;
  const uint16_t* values = nullptr;
  float* widened = nullptr;

  template <int kWidth, typename Thread>
  PSRING_DEVICE void At(Thread& thread, int64_t i) const {
    const auto from = thread.template Load<kWidth>(values + i);
    Pack<float, kWidth> to;
    for (int k = 0; k < kWidth; ++k) to.at[k] = Type::Widen(from.at[k]);
    thread.Store(widened + i, to);
  }
};

// Updates parameters and state by Rule (common/update_rule.h) with gradient[i] * scale.
template <typename Rule>
struct UpdateParameters {
  VectorCut cut;
  UpdateFactors factors;
  float scale = 1;
  const float* gradient = nullptr;
  float* parameters = nullptr;
  // Of the state that the rule has.
  float* first = nullptr;
  float* second = nullptr;

  template <int kWidth, typename Thread>
  PSRING_DEVICE void At(Thread& thread, int64_t i) const {
    const auto gradients = thread.template Load<kWidth>(gradient + i);
    auto pack = thread.template Load<kWidth>(parameters + i);
    Pack<float, kWidth> firsts = {}, seconds = {};
    if constexpr (Rule::kHasFirst) firsts = thread.template Load<kWidth>(first + i);
    if constexpr (Rule::kHasSecond) seconds = thread.template Load<kWidth>(second + i);
    for (int k = 0; k < kWidth; ++k) {
      Rule::Apply(factors, gradients.at[k] * scale, &pack.at[k], &firsts.at[k],
                  &seconds.at[k]);
    }
    thread.Store(parameters + i, pack);
    if constexpr (Rule::kHasFirst) thread.Store(first + i, firsts);
    if constexpr (Rule::kHasSecond) thread.Store(second + i, seconds);
  }
};

// The calls; common/cuda/kernels.h says what of.

inline auto CallAddBias(int64_t rows, int64_t columns, const float* bias, bool relu,
                        float* values) {
  return CallElementwise(AddBias{.cut = CutOf(rows * columns, values),
                                 .columns = columns,
                                 .bias = bias,
                                 .relu = relu,
                                 .values = values});
}

inline auto CallMaskGradient(int64_t count, const float* output, float* gradient) {
  return CallElementwise(MaskGradient{
      .cut = CutOf(count, output, gradient), .output = output, .gradient = gradient});
}

inline auto CallAddTo(int64_t count, const float* addend, float* sum) {
  return CallElementwise(
      AddTo{.cut = CutOf(count, addend, sum), .addend = addend, .sum = sum});
}

inline auto CallScaleBy(int64_t count, float factor, float* values) {
  return CallElementwise(
      ScaleBy{.cut = CutOf(count, values), .factor = factor, .values = values});
}

inline auto CallZeroWhereFound(int64_t count, const uint64_t* found, float* values,
                               uint64_t* zeroed) {
  return CallElementwise(ZeroWhereFound{
      .cut = CutOf(count, values), .found = found, .values = values, .zeroed = zeroed});
}

// Hands `use` the call for the type, or the rule, and returns what it returns.

template <typename Use>
auto WithRoundValues(SixteenBits type, int64_t count, const float* values, float factor,
                     uint16_t* rounded, Use use) {
  const VectorCut cut = CutOf(count, values, rounded);
  if (type == SixteenBits::kBf16) {
    return use(CallElementwise(RoundValues<Bf16>{cut, values, factor, rounded}));
  }
  return use(CallElementwise(RoundValues<Fp16>{cut, values, factor, rounded}));
}

template <typename Use>
auto WithWidenValues(SixteenBits type, int64_t count, const uint16_t* values,
                     float* widened, Use use) {
  const VectorCut cut = CutOf(count, values, widened);
  if (type == SixteenBits::kBf16) {
    return use(CallElementwise(WidenValues<Bf16>{cut, values, widened}));
  }
  return use(CallElementwise(WidenValues<Fp16>{cut, values, widened}));
}

// The arrays of one optimizer's slice, of `count` floats each; of the state, those that
// the rule has.
struct UpdatedSlice {
  int64_t count = 0;
  const float* gradient = nullptr;
  float* parameters = nullptr;
  float* first = nullptr;
  float* second = nullptr;
};

template <typename Rule>
auto CallUpdateParameters(const UpdateFactors& factors, float scale,
                          const UpdatedSlice& slice) {
  return CallElementwise(UpdateParameters<Rule>{
      .cut = CutOf(slice.count, slice.gradient, slice.parameters,
                   Rule::kHasFirst ? slice.first : slice.parameters,
                   Rule::kHasSecond ? slice.second : slice.parameters),
      .factors = factors,
      .scale = scale,
      .gradient = slice.gradient,
      .parameters = slice.parameters,
      .first = slice.first,
      .second = slice.second});
}

template <typename Use>
auto WithUpdateParameters(UpdateRule rule, const UpdateFactors& factors, float scale,
                          const UpdatedSlice& slice, Use use) {
  switch (rule) {
    case UpdateRule::kSgd:
      return use(CallUpdateParameters<SgdUpdate>(factors, scale, slice));
    case UpdateRule::kMomentum:
      return use(CallUpdateParameters<MomentumUpdate>(factors, scale, slice));
    case UpdateRule::kNesterov:
      return use(CallUpdateParameters<NesterovUpdate>(factors, scale, slice));
    case UpdateRule::kAdam:
      return use(CallUpdateParameters<AdamUpdate>(factors, scale, slice));
    case UpdateRule::kAdagrad:
      break;
  }
  return use(CallUpdateParameters<AdagradUpdate>(factors, scale, slice));
}

}  // namespace psring

#endif  // PSRING_COMMON_CUDA_ELEMENTWISE_KERNELS_H_
