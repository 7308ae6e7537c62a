// What threads cost, as against how long they took.
#ifndef PSRING_COMMON_PROCESSOR_TIME_H_
#define PSRING_COMMON_PROCESSOR_TIME_H_

#include <time.h>

#include "absl/time/time.h"

namespace psring {

// Processor time of the calling thread since it started.
inline absl::Duration ThreadProcessorTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

}  // namespace psring

#endif  // PSRING_COMMON_PROCESSOR_TIME_H_
