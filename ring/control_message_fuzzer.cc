// Input: a piece size, then the bytes of a conversation.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "glog/logging.h"
#include "ring/control_message.h"

namespace psring {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t piece = size_t{data[0]} + 1;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  ControlReader whole;
  whole.Take(bytes);
  ControlReader cut;
  for (size_t begin = 0; begin < bytes.size(); begin += piece) {
    cut.Take(bytes.subspan(begin, std::min(piece, bytes.size() - begin)));
  }
  CHECK(whole.waiting() == cut.waiting());
  CHECK_EQ(whole.ended(), cut.ended());
  CHECK_EQ(whole.reason().has_value(), cut.reason().has_value());
  return 0;
}

}  // namespace psring
