#include "ring/elements.h"

#include "common/arithmetic.h"
#include "glog/logging.h"

namespace psring {
namespace {

template <typename Value>
std::span<Value> As(std::span<std::byte> bytes) {
  return {reinterpret_cast<Value*>(bytes.data()), bytes.size() / sizeof(Value)};
}
template <typename Value>
std::span<const Value> As(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const Value*>(bytes.data()), bytes.size() / sizeof(Value)};
}

}  // namespace

Elements::Elements(const DeviceSpan& floats)
    : data(reinterpret_cast<std::byte*>(floats.host().data())), count(floats.count) {}

Elements::Elements(SixteenBits numbers, std::span<uint16_t> values)
    : data(reinterpret_cast<std::byte*>(values.data())),
      count(static_cast<int64_t>(values.size())),
      type(numbers == SixteenBits::kBf16 ? ElementType::kBf16 : ElementType::kFp16) {}

void AddElements(ElementType type, std::span<std::byte> sum,
                 std::span<const std::byte> addend) {
  switch (type) {
    case ElementType::kFloat32:
      return AddInPlace(As<float>(sum), As<float>(addend));
    case ElementType::kBf16:
      return AddRounded(SixteenBits::kBf16, As<uint16_t>(sum), As<uint16_t>(addend));
    case ElementType::kFp16:
      return AddRounded(SixteenBits::kFp16, As<uint16_t>(sum), As<uint16_t>(addend));
  }
  LOG(FATAL) << "unknown type " << static_cast<uint32_t>(type);
}

}  // namespace psring
