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

Bytes FloatReader::Left() {
  while (true) {
    CHECK(!pieces_.empty()) << "read beyond the last float";
    if (offset_ < pieces_.front().size()) return pieces_.front().subspan(offset_);
    pieces_ = pieces_.subspan(1);
    offset_ = 0;
  }
}

int64_t FloatReader::Ahead() {
  // One that straddles pieces comes alone.
  return std::max<int64_t>(1, static_cast<int64_t>(Left().size() / sizeof(float)));
}

Bytes FloatReader::Next(int64_t limit) {
  const Bytes left = Left();
  if (left.size() >= sizeof(float)) {
    const size_t count =
        std::min(static_cast<size_t>(limit), left.size() / sizeof(float));
    offset_ += count * sizeof(float);
    return left.first(count * sizeof(float));
  }
  for (size_t gathered = 0; gathered < sizeof(float);) {
    const Bytes more = Left();
    const size_t taken = std::min(more.size(), sizeof(float) - gathered);
    std::copy_n(more.begin(), taken, straddling_.begin() + gathered);
    gathered += taken;
    offset_ += taken;
  }
  return straddling_;
}

}  // namespace psring
