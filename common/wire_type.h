// What gradients are on their way between processes, and how many bytes they take. Pure.
#ifndef PSRING_COMMON_WIRE_TYPE_H_
#define PSRING_COMMON_WIRE_TYPE_H_

#include <cstdint>
#include <string>

#include "common/sixteen_bits.h"
#include "proto/experiment.pb.h"

namespace psring {

// A value. Of n elements, all numbers little-endian:
//
//   fp32   n floats
//   bf16   n numbers of 16 bits: the upper half of a float
//   fp16   n numbers of 16 bits: IEEE 754's binary16
//   int8   a float, the scale, then n signed bytes, each to be multiplied with it
//   top_k  k indices of 32 bits, ascending, then the k floats that belong there; all
//          other elements are 0. k is the share of n, rounded up.
class WireType {
 public:
  // fp32.
  WireType() = default;
  // That of checked settings. Implicit, because they are the same thing.
  WireType(const Wire& settings);  // NOLINT(google-explicit-constructor)

  Wire::KindCase kind() const { return kind_; }
  bool is_fp32() const { return kind_ == Wire::kFp32; }
  bool is_sixteen_bits() const { return kind_ == Wire::kBf16 || kind_ == Wire::kFp16; }
  // Only of these.
  SixteenBits sixteen_bits() const {
    return kind_ == Wire::kBf16 ? SixteenBits::kBf16 : SixteenBits::kFp16;
  }

  // How many elements of a gradient are sent.
  int64_t SentOf(int64_t count) const;
  int64_t EncodedBytes(int64_t count) const;
  // Numbers of larger magnitude cannot be sent.
  float largest() const;
  // "bf16", "top_k 0.01"
  std::string name() const;

 private:
  Wire::KindCase kind_ = Wire::kFp32;
  double share_ = 1;  // Of top_k.
};

}  // namespace psring

#endif  // PSRING_COMMON_WIRE_TYPE_H_
