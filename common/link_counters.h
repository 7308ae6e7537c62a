// Tensor bytes that one exchange, collective or server has moved. Any thread.
#ifndef PSRING_COMMON_LINK_COUNTERS_H_
#define PSRING_COMMON_LINK_COUNTERS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

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
  // `local_peer`: the peer on the same host, if any; what it is sent and sends is also
  // counted apart.
  explicit LinkCounters(std::optional<int> local_peer = std::nullopt)
      : local_peer_(local_peer.value_or(kNone)) {}

  // `peer` may be left out where none is on the same host.
  void CountOut(TrafficKind kind, int64_t bytes, std::optional<int> peer = std::nullopt) {
    Add(out_, kind, bytes);
    if (IsLocal(peer)) Add(local_out_, kind, bytes);
  }
  void CountIn(TrafficKind kind, int64_t bytes, std::optional<int> peer = std::nullopt) {
    Add(in_, kind, bytes);
    if (IsLocal(peer)) Add(local_in_, kind, bytes);
  }
  ExchangeTraffic totals() const {
    return {.payload_out = Total(out_, TrafficKind::kStep),
            .payload_in = Total(in_, TrafficKind::kStep),
            .initial_out = Total(out_, TrafficKind::kInitial),
            .initial_in = Total(in_, TrafficKind::kInitial),
            .snapshot_out = Total(out_, TrafficKind::kSnapshot),
            .snapshot_in = Total(in_, TrafficKind::kSnapshot),
            .local_payload_out = Total(local_out_, TrafficKind::kStep),
            .local_payload_in = Total(local_in_, TrafficKind::kStep),
            .local_other_out = Others(local_out_),
            .local_other_in = Others(local_in_)};
  }

 private:
  using Counters = std::array<std::atomic<int64_t>, 3>;  // By kind.
  static constexpr int kNone = -1;                       // No rank.

  bool IsLocal(std::optional<int> peer) const {
    return peer.value_or(kNone) == local_peer_ && local_peer_ != kNone;
  }
  static void Add(Counters& counters, TrafficKind kind, int64_t bytes) {
    counters[static_cast<size_t>(kind)].fetch_add(bytes, std::memory_order_relaxed);
  }
  static int64_t Total(const Counters& counters, TrafficKind kind) {
    return counters[static_cast<size_t>(kind)].load(std::memory_order_relaxed);
  }
  static int64_t Others(const Counters& counters) {
    return Total(counters, TrafficKind::kInitial) +
           Total(counters, TrafficKind::kSnapshot);
  }

  const int local_peer_;
  Counters out_{};
  Counters in_{};
  // The local peer's share of these.
  Counters local_out_{};
  Counters local_in_{};
};

}  // namespace psring

#endif  // PSRING_COMMON_LINK_COUNTERS_H_
