#include "ring/ring_test_util.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/status_macros.h"
#include "common/time_source.h"
#include "glog/logging.h"
#include "ring/delayed_transport.h"
#include "ring/in_process_transport.h"
#include "ring/tcp_rendezvous.h"

namespace psring {

std::string TransportKindName(TransportKind kind) {
  switch (kind) {
    case TransportKind::kInProcess:
      return "InProcess";
    case TransportKind::kInProcessNarrow:
      return "InProcessNarrow";
    case TransportKind::kTcp:
      return "Tcp";
    case TransportKind::kTcpLanes:
      return "TcpLanes";
    case TransportKind::kTcpSpin:
      return "TcpSpin";
    case TransportKind::kTcpDelayed:
      return "TcpDelayed";
  }
  LOG(FATAL) << "unknown kind";
}

std::vector<std::unique_ptr<Transport>> MakeTransports(TransportKind kind, int ranks) {
  if (ranks == 1) return std::vector<std::unique_ptr<Transport>>(1);
  switch (kind) {
    case TransportKind::kInProcess:
      return MakeInProcessTransports(ranks, 64 * 1024);
    case TransportKind::kInProcessNarrow:
      return MakeInProcessTransports(ranks, 7);
    case TransportKind::kTcp:
      return ConnectAll(&ConnectPeers, ranks, /*lanes=*/1, /*spin=*/false);
    case TransportKind::kTcpLanes:
      return ConnectAll(&ConnectPeers, ranks, /*lanes=*/3, /*spin=*/false);
    case TransportKind::kTcpSpin:
      return ConnectAll(&ConnectPeers, ranks, /*lanes=*/1, /*spin=*/true);
    case TransportKind::kTcpDelayed:
      return DelayAll(MakeTransports(TransportKind::kTcp, ranks), absl::Microseconds(200),
                      /*most_held_bytes=*/1 << 20);
  }
  LOG(FATAL) << "unknown kind";
}

std::vector<std::unique_ptr<Transport>> DelayAll(
    std::vector<std::unique_ptr<Transport>> transports, absl::Duration delay,
    size_t most_held_bytes) {
  static const RealTime& time = *new RealTime;
  for (std::unique_ptr<Transport>& transport : transports) {
    DelayedTransport::Options options{.delays = {}, .most_held_bytes = most_held_bytes};
    for (const int peer : transport->peers()) options.delays[peer] = delay;
    transport = std::make_unique<DelayedTransport>(std::move(transport), options, &time);
  }
  return transports;
}

std::vector<std::unique_ptr<TransportCollectives>> MakeCollectives(
    std::vector<std::unique_ptr<Transport>> transports,
    const CollectiveOptions& options) {
  const int ranks = options.order.ranks();
  std::vector<std::unique_ptr<TransportCollectives>> collectives;
  for (int rank = 0; rank < ranks; ++rank) {
    collectives.push_back(std::make_unique<TransportCollectives>(
        rank, std::move(transports[rank]), options));
  }
  return collectives;
}

std::vector<std::unique_ptr<TransportCollectives>> MakeCollectives(
    TransportKind kind, const CollectiveOptions& options) {
  return MakeCollectives(MakeTransports(kind, options.order.ranks()), options);
}

RingOrder Backwards(int ranks) {
  std::vector<int> rank_at(ranks);
  for (int position = 1; position < ranks; ++position) {
    rank_at[position] = ranks - position;
  }
  return RingOrder(rank_at);
}

std::vector<absl::Status> RunRanks(int ranks,
                                   const std::function<absl::Status(int rank)>& body) {
  std::vector<absl::Status> statuses(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] { statuses[rank] = body(rank); });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

}  // namespace psring
