#include "common/wire_type.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace psring {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

}  // namespace

WireType::WireType(const Wire& settings)
    : kind_(settings.kind_case() == Wire::KIND_NOT_SET ? Wire::kFp32
                                                       : settings.kind_case()) {
  if (kind_ != Wire::kTopK) return;
  share_ = settings.top_k().share();
  CHECK(share_ > 0 && share_ <= 1) << share_;
}

int64_t WireType::SentOf(int64_t count) const {
  if (kind_ != Wire::kTopK || count == 0) return count;
  // 0.07 of 100 are 7, although the product of the two as doubles is a little above.
  constexpr double kRounding = 1e-12;
  const double share = std::ceil(share_ * static_cast<double>(count) * (1 - kRounding));
  return std::clamp<int64_t>(static_cast<int64_t>(share), 1, count);
}

int64_t WireType::EncodedBytes(int64_t count) const {
  switch (kind_) {
    case Wire::kBf16:
    case Wire::kFp16:
      return count * int64_t{sizeof(uint16_t)};
    case Wire::kInt8:
      return kFloatBytes + count;
    case Wire::kTopK:
      return SentOf(count) * (int64_t{sizeof(uint32_t)} + kFloatBytes);
    default:
      return count * kFloatBytes;
  }
}

float WireType::largest() const {
  return is_sixteen_bits() ? LargestOf(sixteen_bits())
                           : std::numeric_limits<float>::max();
}

std::string WireType::name() const {
  switch (kind_) {
    case Wire::kBf16:
      return "bf16";
    case Wire::kFp16:
      return "fp16";
    case Wire::kInt8:
      return "int8";
    case Wire::kTopK:
      return absl::StrCat("top_k ", share_);
    default:
      return "fp32";
  }
}

}  // namespace psring
