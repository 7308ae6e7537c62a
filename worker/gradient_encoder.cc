#include "worker/gradient_encoder.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/gradient_codec.h"

namespace psring {

namespace {

template <typename T>
int64_t BytesOf(const std::vector<std::vector<T>>& buffers) {
  int64_t bytes = 0;
  for (const auto& buffer : buffers) {
    bytes += static_cast<int64_t>(buffer.size() * sizeof(T));
  }
  return bytes;
}

}  // namespace

GradientEncoder::GradientEncoder(const WireType& wire, const SlotPlan& plan,
                                 const std::shared_ptr<MemoryGauge>& gauge)
    : wire_(wire) {
  if (wire_.is_fp32()) return;
  drift_.resize(plan.slots.size());
  for (const Slot& slot : plan.slots) {
    encoded_.emplace_back(wire_.EncodedBytes(slot.range.count));
  }
  if (wire_.kind() == Wire::kTopK) {
    scratch_.resize(plan.servers);
    for (const Slot& slot : plan.slots) {
      left_out_.emplace_back(slot.range.count);
      std::vector<uint32_t>& scratch = scratch_[slot.server];
      scratch.resize(std::max<size_t>(scratch.size(), slot.range.count));
    }
  }
  claim_ = MemoryClaim(gauge, BytesOf(encoded_) + BytesOf(left_out_) + BytesOf(scratch_));
}

absl::StatusOr<Bytes> GradientEncoder::Encode(const Slot& slot,
                                              std::span<const float> gradient) {
  if (wire_.is_fp32()) return std::as_bytes(gradient);
  TopKMemory memory;
  if (!left_out_.empty()) {
    memory = {.left_out = left_out_[slot.index], .scratch = scratch_[slot.server]};
  }
  std::vector<std::byte>& encoded = encoded_[slot.index];
  const Encoding encoding = EncodeGradient(wire_, gradient, memory, encoded);
  if (encoding.not_finite) {
    return NotANumberError(absl::StrCat(
        "element ", *encoding.not_finite, " of the gradient of slot ", slot.index,
        " cannot be sent as ", wire_.name(), ": it would not be finite"));
  }
  drift_[slot.index] = encoding.drift;
  return encoded;
}

std::optional<Drift> GradientEncoder::drift() const {
  if (wire_.is_fp32()) return std::nullopt;
  Drift drift;
  for (const Drift& of_slot : drift_) drift.Add(of_slot);
  return drift;
}

}  // namespace psring
