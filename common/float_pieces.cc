#include "common/float_pieces.h"

#include <algorithm>
#include <utility>

#include "glog/logging.h"

namespace psring {

FloatPieces::FloatPieces(std::vector<Bytes> pieces) : pieces_(std::move(pieces)) {
  size_t bytes = 0;
  for (const Bytes& piece : pieces_) bytes += piece.size();
  CHECK_EQ(bytes % sizeof(float), 0u);
  count_ = static_cast<int64_t>(bytes / sizeof(float));
}

void FloatPieces::CopyTo(std::span<float> values) const {
  CHECK_EQ(static_cast<int64_t>(values.size()), count_);
  std::byte* to = std::as_writable_bytes(values).data();
  for (const Bytes& piece : pieces_) to = std::copy(piece.begin(), piece.end(), to);
}

Bytes FloatReader::Next(int64_t limit) {
  size_t gathered = 0;  // Bytes of a straddling float.
  while (true) {
    CHECK(!pieces_.empty()) << "read beyond the last float";
    const Bytes left = pieces_.front().subspan(offset_);
    if (gathered == 0 && left.size() >= sizeof(float)) {
      const size_t count =
          std::min(static_cast<size_t>(limit), left.size() / sizeof(float));
      offset_ += count * sizeof(float);
      return left.first(count * sizeof(float));
    }
    const size_t taken = std::min(left.size(), sizeof(float) - gathered);
    std::copy_n(left.begin(), taken, straddling_.begin() + gathered);
    gathered += taken;
    offset_ += taken;
    if (gathered == sizeof(float)) return straddling_;
    pieces_ = pieces_.subspan(1);
    offset_ = 0;
  }
}

}  // namespace psring
