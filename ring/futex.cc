#include "ring/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace psring {
namespace {

// The word itself, which is all that the kernel knows of an atomic.
const uint32_t* AddressOf(const std::atomic<uint32_t>& word) {
  static_assert(sizeof(word) == sizeof(uint32_t));
  static_assert(std::atomic<uint32_t>::is_always_lock_free);
  return reinterpret_cast<const uint32_t*>(&word);
}

}  // namespace

void FutexWait(const std::atomic<uint32_t>& word, uint32_t value,
               absl::Duration timeout) {
  const timespec time = absl::ToTimespec(timeout);
  syscall(SYS_futex, AddressOf(word), FUTEX_WAIT, value, &time, nullptr, 0);
}

void FutexWakeAll(const std::atomic<uint32_t>& word) {
  syscall(SYS_futex, AddressOf(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace psring
