// Which requests' memory the network still references.
#ifndef PSRING_WORKER_PINS_H_
#define PSRING_WORKER_PINS_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <set>

#include "absl/time/time.h"
#include "common/mutex.h"
#include "common/pooled_allocator.h"

namespace psring {

// Owned by a shared_ptr. Any thread. Its lock is a leaf and nothing waits for the network
// in it, because gRPC drops pins anywhere in its code.
class Pins : public std::enable_shared_from_this<Pins> {
 public:
  // The request's memory is referenced until the last copy of this is dropped.
  std::shared_ptr<const void> Pin(uint64_t request) {
    MutexLock lock(&mutex_);
    pinned_.insert(request);
    return std::shared_ptr<const void>(
        this, [self = shared_from_this(), request](const void*) { self->Unpin(request); },
        PooledAllocator<char>(pin_memory_));
  }

  // After false the memory may be changed.
  bool Holds(uint64_t request) {
    MutexLock lock(&mutex_);
    return pinned_.contains(request);
  }

  // False when some are left after the limit.
  bool AwaitNone(absl::Duration limit) {
    const auto deadline = SteadyDeadline(limit);
    MutexLock lock(&mutex_);
    bool expired = false;
    while (!pinned_.empty() && !expired) expired = none_.WaitUntil(&mutex_, deadline);
    return pinned_.empty();
  }

 private:
  void Unpin(uint64_t request) {
    MutexLock lock(&mutex_);
    pinned_.erase(request);
    if (pinned_.empty()) none_.NotifyAll();
  }

  Mutex mutex_;
  CondVar none_;
  std::pmr::unsynchronized_pool_resource memory_ ABSL_GUARDED_BY(mutex_);
  std::pmr::set<uint64_t> pinned_ ABSL_GUARDED_BY(mutex_){&memory_};
  const PooledAllocator<char>::Pool pin_memory_ = PooledAllocator<char>::NewPool();
};

}  // namespace psring

#endif  // PSRING_WORKER_PINS_H_
