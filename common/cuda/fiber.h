// A function with a stack of its own, which can stop in its middle and go on later.
#ifndef PSRING_COMMON_CUDA_FIBER_H_
#define PSRING_COMMON_CUDA_FIBER_H_

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <span>

namespace psring {

// Memory for several stacks, each with a page below it that nobody may touch: one that
// overflows ends the process.
class FiberStacks {
 public:
  explicit FiberStacks(int count);
  ~FiberStacks();
  FiberStacks(const FiberStacks&) = delete;
  FiberStacks& operator=(const FiberStacks&) = delete;

  std::span<std::byte> operator[](int index) const;

 private:
  const size_t bytes_;
  std::byte* const memory_;
};

// Belongs to one thread. The sanitizers are told of each change of stacks.
class Fiber {
 public:
  // `body` never returns; it may end by a Yield that nobody resumes. The stack is the
  // caller's and outlives the fiber.
  Fiber(std::span<std::byte> stack, std::function<void()> body);
  // What is on its stack goes without destructors.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // From outside: runs the body until it yields.
  void Resume();
  // From within the body: back to where it was resumed.
  void Yield();

 private:
  static void Enter(unsigned high, unsigned low);

  const std::function<void()> body_;
  const std::span<std::byte> stack_;
  ucontext_t inside_;
  ucontext_t outside_;
  // For the sanitizers: each side's own, and the stack that Resume was called on.
  void* fake_inside_ = nullptr;
  void* fake_outside_ = nullptr;
  const void* outside_stack_ = nullptr;
  size_t outside_bytes_ = 0;
  void* thread_inside_ = nullptr;
  void* thread_outside_ = nullptr;
};

}  // namespace psring

#endif  // PSRING_COMMON_CUDA_FIBER_H_
