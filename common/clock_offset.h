// How another process's clock compares with this one's, from questions and answers. Pure.
#ifndef PSRING_COMMON_CLOCK_OFFSET_H_
#define PSRING_COMMON_CLOCK_OFFSET_H_

#include <span>

#include "absl/time/time.h"

namespace psring {

// A question and its answer: what this clock showed when it was asked and when the answer
// came, and what the other clock showed in between.
struct ClockPing {
  absl::Duration asked = absl::ZeroDuration();
  absl::Duration other = absl::ZeroDuration();
  absl::Duration answered = absl::ZeroDuration();
};

// What this clock shows, plus `offset`, is what the other one does, give or take `error`.
struct ClockOffset {
  absl::Duration offset = absl::ZeroDuration();
  absl::Duration error = absl::ZeroDuration();
  absl::Duration time = absl::ZeroDuration();  // On this clock, when they were compared.
};

// From at least one ping. The other clock was looked at somewhere between question and
// answer. Halfway is at most half of the way there and back off, however unequal the two
// ways are; so the ping that took least says most, and the others nothing.
//
// Source: F. Cristian, Probabilistic clock synchronization, Distributed Computing 3,
// 1989.
ClockOffset EstimateOffset(std::span<const ClockPing> pings);

}  // namespace psring

#endif  // PSRING_COMMON_CLOCK_OFFSET_H_
