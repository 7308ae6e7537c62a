#include "experiments/explain/collective_story.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/device_span.h"
#include "common/errors.h"
#include "common/ring_order.h"
#include "common/status_macros.h"
#include "experiments/explain/replay.h"
#include "glog/logging.h"
#include "ring/algorithm.h"
#include "ring/operation_header.h"
#include "ring/tcp_rendezvous.h"
#include "ring/transport.h"
#include "ring/transport_collectives.h"

namespace psring {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);

struct Subject {
  const char* name;
  Algorithm algorithm;
  ReplayTitles titles;
};

constexpr Subject kSubjects[] = {
    {"ring",
     RingMode::RING,
     {"reduce-scatter, who receives adds its own term",
      "all-gather, the finished chunks go round"}},
    {"halving_doubling",
     RingMode::HALVING_DOUBLING,
     {"partners exchange and add", "results go back"}},
    {"tree",
     RingMode::TREE,
     {"up the tree, who receives adds", "down the tree, results come back"}},
    {"gather_broadcast",
     RingMode::GATHER_BROADCAST,
     {"gather, rank 0 adds what it receives", "broadcast, rank 0 sends the sums"}}};

// A transport that writes down what its rank sends. Used, like any, by one thread.
class RecordingTransport final : public Transport {
 public:
  // Keeps the bytes by peer in *sent, which outlives this.
  RecordingTransport(std::unique_ptr<Transport> transport,
                     std::vector<std::vector<std::byte>>* sent)
      : Transport(transport->rank(), PeersOf(*transport)),
        transport_(std::move(transport)),
        sent_(*sent) {}

 private:
  static std::vector<Peer> PeersOf(const Transport& transport) {
    std::vector<Peer> peers;
    for (const int peer : transport.peers()) {
      peers.push_back({.rank = peer, .name = transport.name(peer)});
    }
    return peers;
  }

  absl::StatusOr<size_t> DoTrySend(int peer, std::span<const std::byte> first,
                                   std::span<const std::byte> second) override {
    ASSIGN_OR_RETURN(const size_t taken, transport_->TrySend(peer, first, second));
    const auto of_first = first.first(std::min(taken, first.size()));
    const auto of_second = second.first(taken - of_first.size());
    sent_[peer].insert(sent_[peer].end(), of_first.begin(), of_first.end());
    sent_[peer].insert(sent_[peer].end(), of_second.begin(), of_second.end());
    return taken;
  }
  absl::StatusOr<size_t> DoTryReceive(int peer, std::span<std::byte> first,
                                      std::span<std::byte> second) override {
    return transport_->TryReceive(peer, first, second);
  }
  absl::StatusOr<Cause> DoWait(std::span<const Interest> interests,
                               absl::Duration timeout) override {
    RETURN_IF_ERROR(transport_->Wait(interests, timeout));
    return Cause{};
  }
  void DoWake() override { transport_->Wake(); }
  void DoSayWaiting(bool waiting) override { transport_->SayWaiting(waiting); }
  bool DoSaysWaiting(int peer) override { return transport_->SaysWaiting(peer); }
  void DoAbort(const Failure& reason) override { transport_->Abort(FromFailure(reason)); }
  int64_t DoRetransmissions(int peer) const override {
    return transport_->totals(peer).retransmissions;
  }

  const std::unique_ptr<Transport> transport_;
  std::vector<std::vector<std::byte>>& sent_;
};

// One all-reduce, run by a thread per rank.
class Run {
 public:
  Run(Algorithm algorithm, int ranks, int64_t count)
      : ranks_(ranks),
        count_(count),
        options_{.order = RingOrder(ranks), .algorithm = algorithm},
        sent_(ranks, std::vector<std::vector<std::byte>>(ranks)),
        traffic_(ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<float>& input = observed_.inputs.emplace_back();
      for (int64_t i = 0; i < count; ++i) input.push_back(StoryInput(rank, i));
      AppendMoves(algorithm, OperationKind::kAllReduce, count, rank, ranks,
                  &observed_.moves.emplace_back());
    }
    observed_.results = observed_.inputs;
  }

  absl::StatusOr<ObservedOperation> Observe() {
    std::vector<std::unique_ptr<PeerListener>> listeners;
    for (int rank = 0; rank < ranks_; ++rank) {
      ASSIGN_OR_RETURN(listeners.emplace_back(), PeerListener::Listen("127.0.0.1", 0));
      addresses_.push_back(absl::StrCat("127.0.0.1:", listeners.back()->port()));
    }
    std::vector<absl::Status> statuses(ranks_);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks_; ++rank) {
      threads.emplace_back(
          [&, rank] { statuses[rank] = RunRank(rank, std::move(listeners[rank])); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : statuses) RETURN_IF_ERROR(status);
    RETURN_IF_ERROR(Decode());
    return std::move(observed_);
  }

 private:
  absl::Status RunRank(int rank, std::unique_ptr<PeerListener> listener) {
    std::vector<PeerAddress> peers;
    for (const int peer : LinkedRanks(options_, rank)) {
      peers.push_back({.rank = peer, .listens_at = addresses_[peer]});
    }
    RingMember self;
    self.job = "explain";
    self.rank = rank;
    self.ranks = ranks_;
    ASSIGN_OR_RETURN(
        std::unique_ptr<Transport> transport,
        ConnectPeers(std::move(listener), self, peers, /*spin=*/false, kPatience));
    TransportCollectives collectives(
        rank, std::make_unique<RecordingTransport>(std::move(transport), &sent_[rank]),
        options_);
    RETURN_IF_ERROR(collectives.AllReduce(
        {}, DeviceSpan{.data = observed_.results[rank].data(), .count = count_}));
    traffic_[rank] = collectives.traffic();
    return absl::OkStatus();
  }

  // A stream is the operation's header and then floats.
  absl::Status Decode() {
    for (int from = 0; from < ranks_; ++from) {
      int64_t bytes_out = 0;
      for (int to = 0; to < ranks_; ++to) {
        const std::vector<std::byte>& bytes = sent_[from][to];
        if (bytes.size() <= sizeof(OperationHeader)) continue;
        const size_t payload_bytes = bytes.size() - sizeof(OperationHeader);
        std::vector<float> floats(payload_bytes / sizeof(float));
        std::memcpy(floats.data(), bytes.data() + sizeof(OperationHeader),
                    floats.size() * sizeof(float));
        bytes_out += static_cast<int64_t>(payload_bytes);
        observed_.sent[{from, to}] = std::move(floats);
      }
      if (bytes_out != traffic_[from].payload_out) {
        return CheckFailedError(absl::StrCat("rank ", from, " sent ", bytes_out,
                                             " bytes and counted ",
                                             traffic_[from].payload_out));
      }
    }
    return absl::OkStatus();
  }

  const int ranks_;
  const int64_t count_;
  const CollectiveOptions options_;
  std::vector<std::string> addresses_;
  // What each thread leaves behind, by rank; the bytes also by peer.
  std::vector<std::vector<std::vector<std::byte>>> sent_;
  std::vector<ExchangeTraffic> traffic_;
  ObservedOperation observed_;
};

}  // namespace

std::vector<std::string> AllReduceSubjects() {
  std::vector<std::string> names;
  for (const Subject& subject : kSubjects) names.push_back(subject.name);
  return names;
}

absl::StatusOr<Story> TellAllReduce(absl::string_view subject, int ranks, int64_t count) {
  const auto* const found =
      std::find_if(std::begin(kSubjects), std::end(kSubjects),
                   [&](const Subject& candidate) { return subject == candidate.name; });
  CHECK(found != std::end(kSubjects)) << subject;
  ASSIGN_OR_RETURN(const ObservedOperation observed,
                   Run(found->algorithm, ranks, count).Observe());
  Story story;
  ASSIGN_OR_RETURN(story.steps, Replay(observed, found->titles));
  story.title = absl::StrCat("All-reduce by ", subject, ", ", ranks, " ranks, ",
                             CountOfElements(count), ", over TCP on this machine");
  story.introduction = {
      "Every rank starts with a value for each element. The digit tells the element, its "
      "place the rank, so that 66 is what ranks 0 and 1 add up to for an element with "
      "digit 6. The running code overlaps the steps, byte by byte:"};
  story.in_chunks = found->algorithm == RingMode::RING;
  for (int rank = 0; rank < ranks; ++rank) {
    story.endpoints.push_back(absl::StrCat("rank ", rank));
  }
  story.workers = ranks;
  story.count = count;
  return story;
}

}  // namespace psring
