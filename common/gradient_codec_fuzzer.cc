// Input: the wire's kind, the number of elements, how many bytes each piece has, less
// one, then a gradient in such pieces.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/float_pieces.h"
#include "common/fuzz_util.h"
#include "common/gradient_codec.h"
#include "common/wire_type.h"
#include "glog/logging.h"

namespace psring {
namespace {

WireType TypeOf(uint8_t kind) {
  Wire wire;
  if (kind % 5 == 1) wire.mutable_bf16();
  if (kind % 5 == 2) wire.mutable_fp16();
  if (kind % 5 == 3) wire.mutable_int8();
  const int part = kind / 5 + 1;  // Of 52.
  if (kind % 5 == 4) wire.mutable_top_k()->set_share(part / 52.0);
  return wire;
}

bool HaveSameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const WireType wire = TypeOf(data[0]);
  const int64_t count = data[1];
  const Bytes whole = std::as_bytes(std::span(data + 3, size - 3));
  std::vector<Bytes> pieces;
  for (Bytes left = whole; !left.empty();) {
    pieces.push_back(left.first(std::min<size_t>(left.size(), data[2] + 1)));
    left = left.subspan(pieces.back().size());
  }
  // One more, so that there is memory where there are no elements.
  std::vector<float> memory(count + 1), cut_memory(count + 1);
  const absl::Status decoded =
      DecodeGradient(wire, {&whole, 1}, std::span(memory).first(count));
  const absl::Status cut =
      DecodeGradient(wire, pieces, std::span(cut_memory).first(count));
  CHECK_EQ(decoded, cut);
  if (!decoded.ok()) {
    CHECK(absl::IsInvalidArgument(decoded)) << decoded;
    CHECK(IsOneLine(decoded.message())) << decoded;
    return 0;
  }
  CHECK(HaveSameBits(memory, cut_memory));
  CHECK_EQ(static_cast<int64_t>(whole.size()), wire.EncodedBytes(count));
  // What was accepted holds no more elements than were sent, and int8 nothing infinite.
  const auto nonzero =
      std::count_if(memory.begin(), memory.end(), [](float value) { return value != 0; });
  CHECK_LE(nonzero, wire.SentOf(count));
  if (wire.kind() == Wire::kInt8) {
    for (const float value : memory) CHECK(std::isfinite(value));
  }
  return 0;
}

}  // namespace psring
