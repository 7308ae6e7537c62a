// Small objects whose memory is used again, for what comes and goes with every message.
#ifndef PSRING_COMMON_POOLED_ALLOCATOR_H_
#define PSRING_COMMON_POOLED_ALLOCATOR_H_

#include <cstddef>
#include <memory>
#include <memory_resource>
#include <utility>

#include "common/mutex.h"

namespace psring {

// For any threads. std::pmr::synchronized_pool_resource needs one of a process's 1,024
// thread-specific keys each.
class LockedPool final : public std::pmr::memory_resource {
 private:
  void* do_allocate(size_t bytes, size_t alignment) override {
    MutexLock lock(&mutex_);
    return pool_.allocate(bytes, alignment);
  }
  void do_deallocate(void* memory, size_t bytes, size_t alignment) override {
    MutexLock lock(&mutex_);
    pool_.deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  Mutex mutex_;
  std::pmr::unsynchronized_pool_resource pool_ ABSL_GUARDED_BY(mutex_);
};

// For std::allocate_shared, and for the control blocks of shared pointers. The pool keeps
// what it has had, so that its memory is that of the most objects at once, and lives as
// long as an allocator or an object does: an object may outlive whoever made it.
template <typename T>
class PooledAllocator {
 public:
  using value_type = T;
  using Pool = std::shared_ptr<std::pmr::memory_resource>;

  static Pool NewPool() { return std::make_shared<LockedPool>(); }

  explicit PooledAllocator(Pool pool) : pool_(std::move(pool)) {}
  template <typename U>
  PooledAllocator(const PooledAllocator<U>& other)  // NOLINT(google-explicit-constructor)
      : pool_(other.pool()) {}

  T* allocate(size_t count) {
    return static_cast<T*>(pool_->allocate(count * sizeof(T), alignof(T)));
  }
  void deallocate(T* memory, size_t count) {
    pool_->deallocate(memory, count * sizeof(T), alignof(T));
  }

  const Pool& pool() const { return pool_; }
  template <typename U>
  bool operator==(const PooledAllocator<U>& other) const {
    return pool_ == other.pool();
  }

 private:
  Pool pool_;
};

}  // namespace psring

#endif  // PSRING_COMMON_POOLED_ALLOCATOR_H_
