// What fuzz targets share.
#ifndef PSRING_COMMON_FUZZ_UTIL_H_
#define PSRING_COMMON_FUZZ_UTIL_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

#include "absl/strings/string_view.h"

namespace psring {

// `value` with its first bytes changed by the input (exclusive or). An empty input leaves
// it valid, and inputs stay close to valid whatever values the fields come to have.
template <typename T>
T FlipBits(const T& value, std::span<const uint8_t> input) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::array<uint8_t, sizeof(T)> bytes;
  std::memcpy(bytes.data(), &value, sizeof(T));
  for (size_t i = 0; i < std::min(input.size(), bytes.size()); ++i) bytes[i] ^= input[i];
  return std::bit_cast<T>(bytes);
}

// Whether a message can be logged and shown on a terminal: no control characters, so one
// line.
bool IsOneLine(absl::string_view message);

// A file that exists in memory only, while this object does.
class MemoryFile {
 public:
  explicit MemoryFile(absl::string_view content);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // Can be opened by this process, any number of times.
  const std::string& path() const { return path_; }

 private:
  int descriptor_;
  std::string path_;
};

}  // namespace psring

#endif  // PSRING_COMMON_FUZZ_UTIL_H_
