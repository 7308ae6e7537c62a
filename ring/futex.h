// Sleeping on a word of memory that several processes may share. Linux.
#ifndef PSRING_RING_FUTEX_H_
#define PSRING_RING_FUTEX_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace psring {

// Sleeps while `word` holds `value`, at most for `timeout`; returns early where it likes.
void FutexWait(const std::atomic<uint32_t>& word, uint32_t value, absl::Duration timeout);

// Wakes all who sleep on `word`, in every process that maps it.
void FutexWakeAll(const std::atomic<uint32_t>& word);

}  // namespace psring

#endif  // PSRING_RING_FUTEX_H_
