#include "common/allocation_count.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

thread_local int64_t allocations = 0;

}  // namespace

// The forms for arrays of the standard library's call these; the aligned ones are not
// counted, and nothing here is aligned beyond malloc's alignment.
void* operator new(std::size_t bytes) {
  ++allocations;
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) std::abort();
  return memory;
}

void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return operator new(bytes);
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace psring {

int64_t AllocationsOfThisThread() { return allocations; }

}  // namespace psring
