#include "ring/delay_line.h"

#include <algorithm>
#include <utility>

#include "glog/logging.h"

namespace psring {

size_t DelayLine::Put(std::span<const std::byte> first, std::span<const std::byte> second,
                      absl::Duration due) {
  first = first.first(std::min(first.size(), room()));
  second = second.first(std::min(second.size(), room() - first.size()));
  Piece piece{.bytes = {}, .due = due};
  piece.bytes.reserve(first.size() + second.size());
  piece.bytes.insert(piece.bytes.end(), first.begin(), first.end());
  piece.bytes.insert(piece.bytes.end(), second.begin(), second.end());
  const size_t taken = piece.bytes.size();
  if (taken == 0) return 0;
  DCHECK(pieces_.empty() || pieces_.back().due <= due);
  pieces_.push_back(std::move(piece));
  held_bytes_ += taken;
  return taken;
}

std::array<std::span<const std::byte>, 2> DelayLine::Due(absl::Duration now) const {
  std::array<std::span<const std::byte>, 2> due;
  for (size_t i = 0; i < std::min(due.size(), pieces_.size()); ++i) {
    if (pieces_[i].due > now) break;
    due[i] = std::span(pieces_[i].bytes).subspan(i == 0 ? dropped_ : 0);
  }
  return due;
}

absl::Duration DelayLine::NextDue() const {
  return pieces_.empty() ? absl::InfiniteDuration() : pieces_.front().due;
}

void DelayLine::Drop(size_t bytes) {
  CHECK_LE(bytes, held_bytes_);
  held_bytes_ -= bytes;
  dropped_ += bytes;
  while (!pieces_.empty() && dropped_ >= pieces_.front().bytes.size()) {
    dropped_ -= pieces_.front().bytes.size();
    pieces_.pop_front();
  }
}

void DelayLine::Clear() { Drop(held_bytes_); }

}  // namespace psring
