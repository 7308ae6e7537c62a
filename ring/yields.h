// Waiting by letting others run. For ranks that may share processors.
#ifndef PSRING_RING_YIELDS_H_
#define PSRING_RING_YIELDS_H_

#include <sched.h>

#include <chrono>

namespace psring {

// Where ranks share processors, whoever is waited for is most often next to run, and
// letting it run is sooner than to sleep and be woken. Not so where strangers run, too:
// they keep the processor for milliseconds, and who sleeps gets it back sooner. So who
// got it back late once does not try again for long. One thread.
class Yields {
 public:
  // Lets others run a few times, until `done()`; returns what that said last, and false
  // where it is better to sleep at once.
  template <typename Done>
  bool Until(const Done& done) {
    if (sleeps_to_come_ > 0) {
      --sleeps_to_come_;
      return false;
    }
    const auto start = std::chrono::steady_clock::now();
    bool is_done = false;
    for (int i = 0; i < kYields && !is_done; ++i) {
      sched_yield();
      is_done = done();
    }
    if (std::chrono::steady_clock::now() - start > kLate) sleeps_to_come_ = kSleeps;
    return is_done;
  }

 private:
  static constexpr int kYields = 3;
  static constexpr std::chrono::microseconds kLate{200};
  static constexpr int kSleeps = 1000;

  int sleeps_to_come_ = 0;
};

}  // namespace psring

#endif  // PSRING_RING_YIELDS_H_
