// Tensor bytes that one exchange, collective or server has moved. Any thread.
#ifndef PSRING_COMMON_LINK_COUNTERS_H_
#define PSRING_COMMON_LINK_COUNTERS_H_

#include <atomic>
#include <cstdint>

#include "common/gradient_exchange.h"

namespace psring {

enum class TrafficKind {
  kStep,     // Gradients and parameters of a step: what the formulas are about.
  kInitial,  // The first distribution of parameters.
};

// Payload is tensor bytes; framing is counted by whoever knows it.
class LinkCounters {
 public:
  void CountOut(TrafficKind kind, int64_t bytes) {
    (kind == TrafficKind::kStep ? step_out_ : initial_out_)
        .fetch_add(bytes, std::memory_order_relaxed);
  }
  void CountIn(TrafficKind kind, int64_t bytes) {
    (kind == TrafficKind::kStep ? step_in_ : initial_in_)
        .fetch_add(bytes, std::memory_order_relaxed);
  }
  ExchangeTraffic totals() const {
    return {.payload_out = step_out_.load(std::memory_order_relaxed),
            .payload_in = step_in_.load(std::memory_order_relaxed),
            .initial_out = initial_out_.load(std::memory_order_relaxed),
            .initial_in = initial_in_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<int64_t> step_out_{0};
  std::atomic<int64_t> step_in_{0};
  std::atomic<int64_t> initial_out_{0};
  std::atomic<int64_t> initial_in_{0};
};

}  // namespace psring

#endif  // PSRING_COMMON_LINK_COUNTERS_H_
