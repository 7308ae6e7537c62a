#include "common/gradient_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/arithmetic.h"
#include "common/sixteen_bits.h"
#include "common/vectorize.h"
#include "glog/logging.h"

namespace psring {
namespace {

constexpr float kSteps = 127;  // Of int8, either way.
constexpr uint32_t kMagnitude = 0x7fffffff;
constexpr size_t kBlock = 2048;  // Elements that are decoded at once: some pages.

uint32_t MagnitudeOf(float value) { return std::bit_cast<uint32_t>(value) & kMagnitude; }

// As integers, magnitudes are in the order of the numbers.
PSRING_VECTORIZED
int32_t LargestMagnitude(const float* values, int64_t count) {
  int32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    int32_t bits;
    std::memcpy(&bits, values + i, sizeof(bits));
    bits &= int32_t{kMagnitude};
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

// steps[i] = values[i] / scale, to nearest, ties to even. Adding and taking away 1.5 *
// 2^23 rounds: the last bit of such a float is 1.
PSRING_VECTORIZED
void Quantize(const float* __restrict values, float scale, int8_t* __restrict steps,
              int64_t count) {
  constexpr float kRounds = 12582912.0f;
  for (int64_t i = 0; i < count; ++i) {
    const float step = (values[i] / scale + kRounds) - kRounds;
    steps[i] = static_cast<int8_t>(static_cast<int32_t>(step));
  }
}

PSRING_VECTORIZED
void Dequantize(const int8_t* __restrict steps, float scale, float* __restrict values,
                int64_t count) {
  for (int64_t i = 0; i < count; ++i) values[i] = scale * static_cast<float>(steps[i]);
}

// Sums of what is found in blocks: by lane, so that there is an order of additions that
// no vector unit changes.
PSRING_VECTORIZED
void FindDrift(const float* __restrict values, const float* __restrict sent,
               float* __restrict sum, float* __restrict max, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float magnitude = std::fabs(values[i]);
    const float drift =
        std::fabs(sent[i] - values[i]) / (magnitude > 0 ? magnitude : 1.0f);
    sum[i] += drift;
    max[i] = drift > max[i] ? drift : max[i];
  }
}

Encoding EncodeSixteenBits(SixteenBits type, std::span<const float> gradient,
                           std::span<std::byte> encoded) {
  const Rounding rounding =
      RoundTo(type, gradient, /*factor=*/1.0f,
              {reinterpret_cast<uint16_t*>(encoded.data()), gradient.size()});
  return {.drift = rounding.drift, .not_finite = rounding.not_finite};
}

Encoding EncodeInt8(std::span<const float> gradient, std::span<std::byte> encoded) {
  Encoding encoding;
  const auto count = static_cast<int64_t>(gradient.size());
  const int32_t bits = LargestMagnitude(gradient.data(), count);
  const float largest = std::bit_cast<float>(bits);
  if (!std::isfinite(largest)) {
    encoding.not_finite = FirstNonFinite(gradient);
    return encoding;
  }
  float scale = largest / kSteps;
  // The largest element is not to be beyond what there is, and a scale with few bits
  // would not have 127 steps.
  if (!std::isfinite(scale * kSteps)) scale = std::nextafter(scale, 0.0f);
  if (scale < std::numeric_limits<float>::min()) scale = 0;
  std::memcpy(encoded.data(), &scale, sizeof(scale));
  auto* const steps = reinterpret_cast<int8_t*>(encoded.data() + sizeof(scale));
  std::array<float, kBlock> sent;
  std::array<float, kBlock> sum = {};
  std::array<float, kBlock> max = {};
  for (size_t begin = 0; begin < gradient.size(); begin += kBlock) {
    const auto block = gradient.subspan(begin, std::min(kBlock, gradient.size() - begin));
    const auto size = static_cast<int64_t>(block.size());
    if (scale == 0) {
      std::fill_n(steps + begin, size, int8_t{0});
    } else {
      Quantize(block.data(), scale, steps + begin, size);
    }
    Dequantize(steps + begin, scale, sent.data(), size);
    FindDrift(block.data(), sent.data(), sum.data(), max.data(), size);
    encoding.drift.count +=
        std::count_if(block.begin(), block.end(), [](float value) { return value != 0; });
  }
  for (size_t lane = 0; lane < kBlock; ++lane) {
    encoding.drift.sum += sum[lane];
    encoding.drift.max = std::max<double>(encoding.drift.max, max[lane]);
  }
  return encoding;
}

// Whatever is above the magnitude of the last one that is sent is sent, and of those that
// have just that magnitude as many as there is room for.
Encoding EncodeTopK(int64_t sent, std::span<const float> gradient,
                    const TopKMemory& memory, std::span<std::byte> encoded) {
  Encoding encoding;
  const std::span<float> values = memory.left_out;
  AddInPlace(values, gradient);
  encoding.not_finite = FirstNonFinite(values);
  if (encoding.not_finite || values.empty()) return encoding;
  const std::span<uint32_t> magnitudes = memory.scratch.first(values.size());
  std::transform(values.begin(), values.end(), magnitudes.begin(), MagnitudeOf);
  const auto last = magnitudes.begin() + (sent - 1);
  std::nth_element(magnitudes.begin(), last, magnitudes.end(), std::greater<>());
  const uint32_t threshold = *last;
  int64_t of_threshold =
      sent - std::count_if(magnitudes.begin(), last,
                           [threshold](uint32_t other) { return other > threshold; });
  auto* const indices = reinterpret_cast<uint32_t*>(encoded.data());
  auto* const floats = reinterpret_cast<float*>(indices + sent);
  int64_t next = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t magnitude = MagnitudeOf(values[i]);
    if (magnitude != 0) ++encoding.drift.count;
    if (magnitude > threshold || (magnitude == threshold && of_threshold-- > 0)) {
      indices[next] = static_cast<uint32_t>(i);
      floats[next++] = values[i];
      values[i] = 0;
    } else if (magnitude != 0) {
      encoding.drift.sum += 1;
      encoding.drift.max = 1;
    }
  }
  CHECK_EQ(next, sent);
  return encoding;
}

// Reads the bytes of pieces from the first to the last. There are as many as are read.
class PieceReader {
 public:
  explicit PieceReader(std::span<const Bytes> pieces) : pieces_(pieces) {}

  template <typename Value>
  void Read(std::span<Value> values) {
    const std::span<std::byte> to = std::as_writable_bytes(values);
    Take(to.size(), [at = to.data()](Bytes taken) mutable {
      at = std::copy(taken.begin(), taken.end(), at);
    });
  }
  void Skip(size_t bytes) {
    Take(bytes, [](Bytes) {});
  }

 private:
  template <typename Use>
  void Take(size_t bytes, Use use) {
    while (bytes > 0) {
      CHECK(!pieces_.empty()) << "read beyond the last byte";
      const Bytes left = pieces_.front().subspan(offset_);
      const Bytes taken = left.first(std::min(bytes, left.size()));
      use(taken);
      bytes -= taken.size();
      offset_ += taken.size();
      if (offset_ == pieces_.front().size()) {
        pieces_ = pieces_.subspan(1);
        offset_ = 0;
      }
    }
  }

  std::span<const Bytes> pieces_;  // What is left; of the first, from offset_ on.
  size_t offset_ = 0;
};

// Element by element of type `Value`, a block at a time: the copy is in the cache.
template <typename Value, typename Convert>
void DecodeBlocks(PieceReader& reader, std::span<float> gradient, Convert convert) {
  std::array<Value, kBlock> block;
  for (size_t begin = 0; begin < gradient.size(); begin += kBlock) {
    const auto to = gradient.subspan(begin, std::min(kBlock, gradient.size() - begin));
    const auto from = std::span(block).first(to.size());
    reader.Read(from);
    convert(from, to);
  }
}

absl::Status DecodeInt8(PieceReader& reader, std::span<float> gradient) {
  float scale = 0;
  reader.Read(std::span(&scale, 1));
  if (!(scale >= 0 && std::isfinite(scale * kSteps))) {
    return absl::InvalidArgumentError(
        absl::StrCat("a gradient as int8 has a scale of ", scale));
  }
  constexpr int8_t kNone = std::numeric_limits<int8_t>::min();  // One step too many.
  bool found_none = false;
  DecodeBlocks<int8_t>(
      reader, gradient, [&](std::span<const int8_t> from, std::span<float> to) {
        found_none = found_none || std::memchr(from.data(), static_cast<uint8_t>(kNone),
                                               from.size()) != nullptr;
        Dequantize(from.data(), scale, to.data(), static_cast<int64_t>(to.size()));
      });
  if (!found_none) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "a gradient as int8 has an element of ", int{kNone}, " steps, and there are 127"));
}

absl::Status DecodeTopK(size_t sent, std::span<const Bytes> encoded,
                        std::span<float> gradient) {
  std::fill(gradient.begin(), gradient.end(), 0.0f);
  PieceReader index_reader(encoded);
  PieceReader value_reader(encoded);
  value_reader.Skip(sent * sizeof(uint32_t));
  std::array<uint32_t, kBlock> indices;
  std::array<float, kBlock> values;
  int64_t before = -1;
  for (size_t begin = 0; begin < sent; begin += kBlock) {
    const size_t count = std::min(kBlock, sent - begin);
    index_reader.Read(std::span(indices).first(count));
    value_reader.Read(std::span(values).first(count));
    for (size_t i = 0; i < count; ++i) {
      const int64_t index = indices[i];
      if (index >= static_cast<int64_t>(gradient.size())) {
        return absl::InvalidArgumentError(absl::StrCat(
            "a gradient as top_k names element ", index, " of ", gradient.size()));
      }
      if (index <= before) {
        return absl::InvalidArgumentError(absl::StrCat(
            "a gradient as top_k names element ", index, " after element ", before));
      }
      before = index;
      gradient[index] = values[i];
    }
  }
  return absl::OkStatus();
}

}  // namespace

Encoding EncodeGradient(const WireType& wire, std::span<const float> gradient,
                        const TopKMemory& memory, std::span<std::byte> encoded) {
  const auto count = static_cast<int64_t>(gradient.size());
  CHECK_EQ(static_cast<int64_t>(encoded.size()), wire.EncodedBytes(count));
  switch (wire.kind()) {
    case Wire::kBf16:
    case Wire::kFp16:
      return EncodeSixteenBits(wire.sixteen_bits(), gradient, encoded);
    case Wire::kInt8:
      return EncodeInt8(gradient, encoded);
    case Wire::kTopK:
      return EncodeTopK(wire.SentOf(count), gradient, memory, encoded);
    default:
      LOG(FATAL) << "nothing to encode as " << wire.name();
  }
}

absl::Status DecodeGradient(const WireType& wire, std::span<const Bytes> encoded,
                            std::span<float> gradient) {
  const auto count = static_cast<int64_t>(gradient.size());
  int64_t bytes = 0;
  for (const Bytes& piece : encoded) bytes += static_cast<int64_t>(piece.size());
  if (bytes != wire.EncodedBytes(count)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a gradient of ", count, " elements as ", wire.name(), " has ",
                     wire.EncodedBytes(count), " bytes, and here are ", bytes));
  }
  PieceReader reader(encoded);
  switch (wire.kind()) {
    case Wire::kBf16:
    case Wire::kFp16:
      DecodeBlocks<uint16_t>(
          reader, gradient,
          [type = wire.sixteen_bits()](std::span<const uint16_t> from,
                                       std::span<float> to) { Widen(type, from, to); });
      return absl::OkStatus();
    case Wire::kInt8:
      return DecodeInt8(reader, gradient);
    case Wire::kTopK:
      return DecodeTopK(static_cast<size_t>(wire.SentOf(count)), encoded, gradient);
    default:
      reader.Read(gradient);
      return absl::OkStatus();
  }
}

}  // namespace psring
