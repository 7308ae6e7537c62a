// What lies where in the memory that the ranks of a job share. Pure.
//
//   head | one SharedMemoryMember per rank | slots, two per rank | values, by rank
//
// Everything but the values is small. Members and slots start on a cache line of their
// own, each rank's values on a page.
#ifndef PSRING_RING_SHARED_MEMORY_LAYOUT_H_
#define PSRING_RING_SHARED_MEMORY_LAYOUT_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ring/operation_header.h"

namespace psring {

inline constexpr int64_t kCacheLineBytes = 64;
inline constexpr int64_t kPageBytes = 4096;

// Floats of each of a rank's two slots, through which it passes values that lie elsewhere
// than in the segment.
inline constexpr int64_t kSlotCount = 4096;

// Says what a segment is, and never changes.
struct SharedMemoryPrefix {
  static constexpr uint64_t kMagic = 0x3147455352505350;  // "PSPRSEG1"

  uint64_t magic = kMagic;
  uint64_t job_fingerprint = 0;
  int64_t count = 0;  // Floats of each rank.
  int64_t ranks = 0;

  friend bool operator==(const SharedMemoryPrefix&, const SharedMemoryPrefix&) = default;
};

// What the segment starts with.
struct SharedMemoryHead {
  SharedMemoryPrefix prefix;
  std::atomic<uint32_t> arrivals = 0;  // Ranks that have come.
};

// What a rank tells the others of one operation: a single cache line, and so a single
// transfer between two processors.
struct alignas(kCacheLineBytes) SharedMemoryTurn {
  OperationHeader header;
  int64_t position = 0;  // Of its values: bytes from the segment's start; < 0: elsewhere.
  // How often the rank has met the others, over all operations and modulo 2^32. Stored
  // after all that it vouches for.
  std::atomic<uint32_t> phase = 0;
  std::atomic<uint32_t> sleepers = 0;  // Those who want to be woken when `phase` changes.
};
static_assert(sizeof(SharedMemoryTurn) == kCacheLineBytes);

enum class MemberState : uint32_t { kAbsent = 0, kPresent, kFailed, kLeft };

// Written by one rank and read by all, `sleepers` aside. All zero before it comes.
struct alignas(kCacheLineBytes) SharedMemoryMember {
  // Operation s uses turns[s % 2]: a rank is at most one operation ahead of another, so
  // it does not overwrite what the other still reads.
  std::array<SharedMemoryTurn, 2> turns;

  alignas(kCacheLineBytes) std::atomic<MemberState> state = MemberState::kAbsent;
  int32_t process = 0;
  // Why it failed; valid in state kFailed.
  int32_t failure_code = 0;
  int32_t failure_exit_code = 0;
  std::array<char, 2048> failure_message = {};
};

// Positions in the segment, in bytes.
class SharedMemoryLayout {
 public:
  // Requires ranks >= 1 and count >= 0.
  constexpr SharedMemoryLayout(int64_t ranks, int64_t count)
      : ranks_(ranks),
        values_bytes_(RoundUp(count * int64_t{sizeof(float)}, kPageBytes)) {}

  constexpr int64_t member(int64_t rank) const {
    return kPageBytes + rank * int64_t{sizeof(SharedMemoryMember)};
  }
  constexpr int64_t slot(int64_t rank, int64_t which) const {
    return RoundUp(member(ranks_), kPageBytes) +
           (2 * rank + which) * kSlotCount * int64_t{sizeof(float)};
  }
  constexpr int64_t values(int64_t rank) const {
    return RoundUp(slot(ranks_, 0), kPageBytes) + rank * values_bytes_;
  }
  constexpr int64_t values_bytes() const { return values_bytes_; }
  constexpr int64_t control_bytes() const { return values(0); }  // All before the values.
  constexpr int64_t total_bytes() const { return values(ranks_); }

 private:
  static constexpr int64_t RoundUp(int64_t bytes, int64_t unit) {
    return (bytes + unit - 1) / unit * unit;
  }

  const int64_t ranks_;
  const int64_t values_bytes_;
};

}  // namespace psring

#endif  // PSRING_RING_SHARED_MEMORY_LAYOUT_H_
