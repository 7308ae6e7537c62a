// Tensor bytes that one exchange, collective or server has moved. Any thread.
#ifndef PSRING_COMMON_LINK_COUNTERS_H_
#define PSRING_COMMON_LINK_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "common/gradient_exchange.h"

namespace psring {

enum class TrafficKind {
  kStep,      // Gradients and parameters of a step: what the formulas are about.
  kInitial,   // The first distribution of parameters.
  kSnapshot,  // Parameters fetched to be evaluated.
};

// Payload is tensor bytes; framing is counted by whoever knows it.
class LinkCounters {
 public:
  void CountOut(TrafficKind kind, int64_t bytes) { Add(out_, kind, bytes); }
  void CountIn(TrafficKind kind, int64_t bytes) { Add(in_, kind, bytes); }
  ExchangeTraffic totals() const {
    return {.payload_out = Total(out_, TrafficKind::kStep),
            .payload_in = Total(in_, TrafficKind::kStep),
            .initial_out = Total(out_, TrafficKind::kInitial),
            .initial_in = Total(in_, TrafficKind::kInitial),
            .snapshot_out = Total(out_, TrafficKind::kSnapshot),
            .snapshot_in = Total(in_, TrafficKind::kSnapshot)};
  }

 private:
  using Counters = std::array<std::atomic<int64_t>, 3>;  // By kind.

  static void Add(Counters& counters, TrafficKind kind, int64_t bytes) {
    counters[static_cast<size_t>(kind)].fetch_add(bytes, std::memory_order_relaxed);
  }
  static int64_t Total(const Counters& counters, TrafficKind kind) {
    return counters[static_cast<size_t>(kind)].load(std::memory_order_relaxed);
  }

  Counters out_{};
  Counters in_{};
};

}  // namespace psring

#endif  // PSRING_COMMON_LINK_COUNTERS_H_
