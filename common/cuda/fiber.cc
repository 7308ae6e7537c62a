#include "common/cuda/fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <utility>

#include "common/address_sanitizer.h"
#include "glog/logging.h"

#if defined(__SANITIZE_THREAD__)  // gcc
#define PSRING_THREAD_SANITIZER
#elif defined(__has_feature)  // clang
#if __has_feature(thread_sanitizer)
#define PSRING_THREAD_SANITIZER
#endif
#endif

#ifdef PSRING_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef PSRING_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

namespace psring {
namespace {

constexpr size_t kGuardBytes = 4096;
// Touched only as far as it is used; frames are several times larger with sanitizers.
constexpr size_t kStackBytes = 128 * 1024;

// Before a change to another stack, of which `stack` is the lowest address, and after it,
// on the other stack. `fake_stack` is that of the side that leaves, or has come back.

void LeaveFor([[maybe_unused]] void** fake_stack, [[maybe_unused]] const void* stack,
              [[maybe_unused]] size_t bytes) {
#ifdef PSRING_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(fake_stack, stack, bytes);
#endif
}

void ArriveFrom([[maybe_unused]] void* fake_stack, [[maybe_unused]] const void** stack,
                [[maybe_unused]] size_t* bytes) {
#ifdef PSRING_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(fake_stack, stack, bytes);
#endif
}

}  // namespace

FiberStacks::FiberStacks(int count)
    : bytes_(count * (kGuardBytes + kStackBytes)),
      memory_(static_cast<std::byte*>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                                           -1, 0))) {
  CHECK(memory_ != MAP_FAILED) << "no memory for " << count << " stacks";
  for (int i = 0; i < count; ++i) {
    CHECK_EQ(mprotect((*this)[i].data() - kGuardBytes, kGuardBytes, PROT_NONE), 0);
  }
}

FiberStacks::~FiberStacks() { munmap(memory_, bytes_); }

std::span<std::byte> FiberStacks::operator[](int index) const {
  return {memory_ + index * (kGuardBytes + kStackBytes) + kGuardBytes, kStackBytes};
}

Fiber::Fiber(std::span<std::byte> stack, std::function<void()> body)
    : body_(std::move(body)), stack_(stack) {
  CHECK_EQ(getcontext(&inside_), 0);
  inside_.uc_stack.ss_sp = stack_.data();
  inside_.uc_stack.ss_size = stack_.size();
  inside_.uc_link = nullptr;
  // makecontext hands over numbers of 32 bits.
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::Enter), 2,
              static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
#ifdef PSRING_THREAD_SANITIZER
  thread_inside_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#ifdef PSRING_THREAD_SANITIZER
  __tsan_destroy_fiber(thread_inside_);
#endif
#ifdef PSRING_ADDRESS_SANITIZER
  // Frames that were never left have marked their surroundings.
  ASAN_UNPOISON_MEMORY_REGION(stack_.data(), stack_.size());
#endif
}

void Fiber::Enter(unsigned high, unsigned low) {
  auto* const self = reinterpret_cast<Fiber*>(uintptr_t{high} << 32 | uintptr_t{low});
  ArriveFrom(nullptr, &self->outside_stack_, &self->outside_bytes_);
  self->body_();
  LOG(FATAL) << "the body of a fiber returned";
}

void Fiber::Resume() {
  LeaveFor(&fake_outside_, stack_.data(), stack_.size());
#ifdef PSRING_THREAD_SANITIZER
  thread_outside_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(thread_inside_, 0);
#endif
  CHECK_EQ(swapcontext(&outside_, &inside_), 0);
  ArriveFrom(fake_outside_, nullptr, nullptr);
}

void Fiber::Yield() {
  LeaveFor(&fake_inside_, outside_stack_, outside_bytes_);
#ifdef PSRING_THREAD_SANITIZER
  __tsan_switch_to_fiber(thread_outside_, 0);
#endif
  CHECK_EQ(swapcontext(&inside_, &outside_), 0);
  ArriveFrom(fake_inside_, &outside_stack_, &outside_bytes_);
}

}  // namespace psring
