#include "experiments/bench/psring_rank.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/device.h"
#include "common/ring_order.h"
#include "common/status_macros.h"
#include "ring/algorithm_by_size.h"
#include "ring/collectives.h"
#include "ring/grpc_transport.h"
#include "ring/shared_memory_collectives.h"
#include "ring/shared_memory_segment.h"
#include "ring/tcp_rendezvous.h"
#include "ring/transport_collectives.h"

namespace psring {
namespace {

constexpr absl::Duration kConnectPatience = absl::Seconds(60);

// Whatever sums, once it is connected.
class CollectivesRank : public BenchRank {
 public:
  explicit CollectivesRank(PsringRankOptions options) : options_(std::move(options)) {}

  absl::Status AllReduce() override { return collectives_->AllReduce({}, values_); }

 protected:
  const PsringRankOptions options_;
  DeviceSpan values_;                         // As prepared.
  std::unique_ptr<Collectives> collectives_;  // Null until connected.
};

// Over links from rank to rank; a transport is a listener and how to connect.
template <typename Listener, auto kConnectRanks>
class LinkedRank final : public CollectivesRank {
 public:
  LinkedRank(PsringRankOptions options, std::unique_ptr<Listener> listener)
      : CollectivesRank(std::move(options)),
        listener_(std::move(listener)),
        address_(absl::StrCat("127.0.0.1:", listener_->port())) {}

  std::string address() const override { return address_; }

  absl::Status Connect(const std::vector<std::string>& addresses) override {
    const CollectiveOptions collective = {
        .order = RingOrder(options_.ranks),
        .algorithm = AlgorithmBySize(options_.settings)};
    std::vector<PeerAddress> peers;
    for (const int peer : LinkedRanks(collective, options_.rank)) {
      peers.push_back({.rank = peer, .listens_at = addresses[peer]});
    }
    RingMember self;
    self.job = options_.job;
    self.rank = options_.rank;
    self.ranks = options_.ranks;
    self.lanes = static_cast<int>(options_.settings.connections());
    ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport,
                     kConnectRanks(std::move(listener_), self, peers,
                                   options_.settings.spin(), kConnectPatience));
    collectives_ = std::make_unique<TransportCollectives>(
        options_.rank, std::move(transport), collective);
    return absl::OkStatus();
  }

  absl::StatusOr<std::span<float>> Prepare(int64_t count) override {
    memory_.resize(count);
    values_ = {.data = memory_.data(), .count = count};
    return memory_;
  }

 private:
  std::unique_ptr<Listener> listener_;  // Until connected.
  const std::string address_;
  std::vector<float> memory_;
};

template <typename Listener, auto kConnectRanks>
absl::StatusOr<std::unique_ptr<BenchRank>> MakeLinkedRank(
    const PsringRankOptions& options) {
  ASSIGN_OR_RETURN(auto listener, Listener::Listen("127.0.0.1", /*port=*/0));
  return std::make_unique<LinkedRank<Listener, kConnectRanks>>(options,
                                                               std::move(listener));
}

class SharedMemoryRank final : public CollectivesRank {
 public:
  using CollectivesRank::CollectivesRank;

  // The ranks meet by the name of the job.
  absl::Status Connect(const std::vector<std::string>&) override {
    ASSIGN_OR_RETURN(std::shared_ptr<SharedMemorySegment> segment,
                     SharedMemorySegment::Open({.job = options_.job,
                                                .rank = options_.rank,
                                                .ranks = options_.ranks,
                                                .count = options_.most_count},
                                               kConnectPatience));
    memory_ = segment->buffer();
    collectives_ = std::make_unique<SharedMemoryCollectives>(
        std::move(segment),
        SharedMemoryOptions{.order = RingOrder(options_.ranks),
                            .wait = options_.settings.spin() ? SharedMemoryWait::kSpin
                                                             : SharedMemoryWait::kSleep});
    return absl::OkStatus();
  }

  absl::StatusOr<std::span<float>> Prepare(int64_t count) override {
    values_ = memory_.span().Slice({.begin = 0, .count = count});
    return values_.host();
  }

 private:
  DeviceBuffer memory_;  // In the segment.
};

}  // namespace

absl::StatusOr<std::unique_ptr<BenchRank>> MakePsringRank(
    const PsringRankOptions& options) {
  switch (options.settings.transport()) {
    case RingMode::GRPC:
      return MakeLinkedRank<GrpcListener, ConnectPeersOverGrpc>(options);
    case RingMode::SHARED_MEMORY:
      return std::make_unique<SharedMemoryRank>(options);
    default:
      return MakeLinkedRank<PeerListener, ConnectPeers>(options);
  }
}

}  // namespace psring
