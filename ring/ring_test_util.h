// Ranks that are threads, for tests.
#ifndef PSRING_RING_RING_TEST_UTIL_H_
#define PSRING_RING_RING_TEST_UTIL_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/ring_order.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "ring/tcp_rendezvous.h"
#include "ring/transport.h"
#include "ring/transport_collectives.h"

namespace psring {

enum class TransportKind {
  kInProcess,
  kInProcessNarrow,  // Links of 7 bytes: every float straddles.
  kTcp,
  kTcpLanes,  // Three connections to each peer.
  kTcpSpin,
  kTcpDelayed,  // Links have a delay of 0.2 ms.
};
std::string TransportKindName(TransportKind kind);

// Connected transports of all ranks, each linked to all others; for one rank, a null one.
std::vector<std::unique_ptr<Transport>> MakeTransports(TransportKind kind, int ranks);

// The same, with a delay of every link.
std::vector<std::unique_ptr<Transport>> DelayAll(
    std::vector<std::unique_ptr<Transport>> transports, absl::Duration delay,
    size_t most_held_bytes);

// Every rank's collectives over its transport.
std::vector<std::unique_ptr<TransportCollectives>> MakeCollectives(
    std::vector<std::unique_ptr<Transport>> transports, const CollectiveOptions& options);
std::vector<std::unique_ptr<TransportCollectives>> MakeCollectives(
    TransportKind kind, const CollectiveOptions& options);

// 0, N - 1, ..., 1.
RingOrder Backwards(int ranks);

// Runs body(rank) on one thread per rank; returns what each returned.
std::vector<absl::Status> RunRanks(int ranks,
                                   const std::function<absl::Status(int rank)>& body);

// Lets all ranks connect over loopback by `connect`, ConnectPeers or one like it.
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

}  // namespace psring

#endif  // PSRING_RING_RING_TEST_UTIL_H_
