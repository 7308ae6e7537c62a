#include "ring/ring_test_util.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "ring/grpc_transport.h"
#include "ring/in_process_transport.h"
#include "ring/tcp_rendezvous.h"

namespace psring {
namespace {

template <typename Listener>
using Connect = absl::StatusOr<std::unique_ptr<Transport>> (*)(
    std::unique_ptr<Listener>, const RingMember&, const std::vector<PeerAddress>&,
    bool spin, absl::Duration timeout);

template <typename Listener>
std::vector<std::unique_ptr<Transport>> ConnectAll(Connect<Listener> connect, int ranks,
                                                   int lanes, bool spin) {
  std::vector<std::unique_ptr<Listener>> listeners;
  std::vector<PeerAddress> addresses;
  for (int rank = 0; rank < ranks; ++rank) {
    auto listener = Listener::Listen("127.0.0.1", 0);
    CHECK(listener.ok()) << listener.status();
    addresses.push_back(
        {.rank = rank, .listens_at = absl::StrCat("127.0.0.1:", (*listener)->port())});
    listeners.push_back(*std::move(listener));
  }
  std::vector<std::unique_ptr<Transport>> transports(ranks);
  const auto statuses = RunRanks(ranks, [&](int rank) -> absl::Status {
    std::vector<PeerAddress> peers = addresses;
    peers.erase(peers.begin() + rank);
    ASSIGN_OR_RETURN(
        transports[rank],
        connect(std::move(listeners[rank]),
                {.job = "test", .rank = rank, .ranks = ranks, .lanes = lanes}, peers,
                spin, absl::Seconds(60)));
    return absl::OkStatus();
  });
  for (const absl::Status& status : statuses) CHECK(status.ok()) << status;
  return transports;
}

}  // namespace

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
    case TransportKind::kGrpc:
      return "Grpc";
    case TransportKind::kGrpcLanes:
      return "GrpcLanes";
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
    case TransportKind::kGrpc:
      return ConnectAll(&ConnectPeersOverGrpc, ranks, /*lanes=*/1, /*spin=*/false);
    case TransportKind::kGrpcLanes:
      return ConnectAll(&ConnectPeersOverGrpc, ranks, /*lanes=*/3, /*spin=*/false);
  }
  LOG(FATAL) << "unknown kind";
}

std::vector<std::unique_ptr<TransportCollectives>> MakeCollectives(
    TransportKind kind, const CollectiveOptions& options) {
  const int ranks = options.order.ranks();
  auto transports = MakeTransports(kind, ranks);
  std::vector<std::unique_ptr<TransportCollectives>> collectives;
  for (int rank = 0; rank < ranks; ++rank) {
    collectives.push_back(std::make_unique<TransportCollectives>(
        rank, std::move(transports[rank]), options));
  }
  return collectives;
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
