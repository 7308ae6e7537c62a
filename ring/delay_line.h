// Bytes that are held back, each until it is due.
#ifndef PSRING_RING_DELAY_LINE_H_
#define PSRING_RING_DELAY_LINE_H_

#include <array>
#include <cstddef>
#include <deque>
#include <span>
#include <vector>

#include "absl/time/time.h"

namespace psring {

// A queue with the time at which each byte may leave it, which is an argument: there is
// no clock in here. Not thread-safe; but what Due returns may be read while others Put.
class DelayLine {
 public:
  // Holds so many bytes, at least 1.
  explicit DelayLine(size_t most_bytes) : most_bytes_(most_bytes) {}

  bool empty() const { return held_bytes_ == 0; }
  size_t room() const { return most_bytes_ - held_bytes_; }

  // Copies a first part of both pieces together, as much as there is room for; returns
  // how many bytes. `due` is not before that of the bytes before them.
  size_t Put(std::span<const std::byte> first, std::span<const std::byte> second,
             absl::Duration due);

  // The oldest of the bytes that are due at `now`, in up to two pieces, in order; those
  // behind come once these are gone. They stay where they are until they are dropped.
  std::array<std::span<const std::byte>, 2> Due(absl::Duration now) const;
  // When the oldest byte is due; infinite where there is none.
  absl::Duration NextDue() const;

  // Drops the oldest bytes, not more than there are.
  void Drop(size_t bytes);
  void Clear();

 private:
  struct Piece {
    std::vector<std::byte> bytes;
    absl::Duration due;
  };

  const size_t most_bytes_;
  std::deque<Piece> pieces_;
  size_t dropped_ = 0;  // Of the first piece.
  size_t held_bytes_ = 0;
};

}  // namespace psring

#endif  // PSRING_RING_DELAY_LINE_H_
