// Gradients to what they are on the wire (common/wire_type.h), and back. Pure.
#ifndef PSRING_COMMON_GRADIENT_CODEC_H_
#define PSRING_COMMON_GRADIENT_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "common/drift.h"
#include "common/float_pieces.h"
#include "common/wire_type.h"

namespace psring {

struct Encoding {
  // Of top_k: of the gradient with what was left out before, which is what is to be sent.
  Drift drift;
  // An element that cannot be sent, because it would be infinite or is no number; then
  // what was encoded is of no use.
  std::optional<int64_t> not_finite = std::nullopt;
};

// The memory that top_k needs; otherwise empty.
struct TopKMemory {
  // Of as many elements as the gradient: what has been left out so far, 0 at first. The
  // gradient is added to it, and what is sent is taken from it.
  std::span<float> left_out;
  std::span<uint32_t> scratch;  // At least as many.
};

// Not fp32, which is sent as it is. `encoded` has wire.EncodedBytes(gradient.size())
// bytes, aligned for floats.
//
// int8: the scale is the largest magnitude / 127, and 0 where that is no normal number;
// an element is the nearest multiple of it, ties to even multiples.
// top_k: of elements of the same magnitude the first ones are sent.
Encoding EncodeGradient(const WireType& wire, std::span<const float> gradient,
                        const TopKMemory& memory, std::span<std::byte> encoded);

// `encoded` is any bytes, in pieces that are cut anywhere. kInvalidArgument, in one line:
// they are not what such a gradient of so many elements is, or hold a scale, a step or an
// index that cannot be; then `gradient` is undefined.
absl::Status DecodeGradient(const WireType& wire, std::span<const Bytes> encoded,
                            std::span<float> gradient);

}  // namespace psring

#endif  // PSRING_COMMON_GRADIENT_CODEC_H_
