#include "ring/ring_test_util.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "ring/in_process_transport.h"
#include "ring/ring_schedule.h"
#include "ring/tcp_rendezvous.h"

namespace psring {
namespace {

std::vector<std::unique_ptr<Transport>> MakeTcpRing(int ranks) {
  std::vector<std::unique_ptr<RingListener>> listeners;
  std::vector<std::string> addresses;
  for (int rank = 0; rank < ranks; ++rank) {
    auto listener = RingListener::Listen("127.0.0.1", 0);
    CHECK(listener.ok()) << listener.status();
    addresses.push_back(absl::StrCat("127.0.0.1:", (*listener)->port()));
    listeners.push_back(*std::move(listener));
  }
  std::vector<std::unique_ptr<Transport>> transports(ranks);
  const auto statuses = RunRanks(ranks, [&](int rank) -> absl::Status {
    ASSIGN_OR_RETURN(transports[rank],
                     ConnectRing(std::move(listeners[rank]),
                                 {.job = "test", .rank = rank, .ranks = ranks},
                                 addresses[RightOf(rank, ranks)], absl::Seconds(60)));
    return absl::OkStatus();
  });
  for (const absl::Status& status : statuses) CHECK(status.ok()) << status;
  return transports;
}

}  // namespace

std::vector<std::unique_ptr<Transport>> MakeRing(TransportKind kind, int ranks) {
  if (ranks == 1) return std::vector<std::unique_ptr<Transport>>(1);
  switch (kind) {
    case TransportKind::kInProcess:
      return MakeInProcessRing(ranks, 64 * 1024);
    case TransportKind::kInProcessNarrow:
      return MakeInProcessRing(ranks, 7);
    case TransportKind::kTcp:
      return MakeTcpRing(ranks);
  }
  LOG(FATAL) << "unknown kind";
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
