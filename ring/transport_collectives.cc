#include "ring/transport_collectives.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace psring {

std::vector<int> LinkedRanks(const CollectiveOptions& options, int rank) {
  const RingOrder& order = options.order;
  std::set<int> linked;
  for (const Algorithm algorithm : options.algorithm.all()) {
    for (const int position :
         LinkedPositions(algorithm, order.PositionOf(rank), order.ranks())) {
      linked.insert(order.RankAt(position));
    }
  }
  return {linked.begin(), linked.end()};
}

TransportCollectives::TransportCollectives(int rank, std::unique_ptr<Transport> transport,
                                           CollectiveOptions options)
    : position_(options.order.PositionOf(rank)),
      options_(std::move(options)),
      transport_(std::move(transport)),
      runner_(transport_ == nullptr
                  ? nullptr
                  : std::make_unique<OperationRunner>(transport_.get(), &counters_,
                                                      options_.stall_timeout,
                                                      MostMoves(options_.order.ranks()))),
      barrier_values_(options_.order.ranks()) {
  CHECK_EQ(transport_ == nullptr, options_.order.ranks() == 1);
  // Broadcasts come from position 0, and are to come from rank 0.
  CHECK_EQ(options_.order.RankAt(0), 0);
  moves_.Reserve(MostMoves(options_.order.ranks()));
}

absl::Status TransportCollectives::AllReduce(OperationTag tag, Elements values) {
  return Run(OperationKind::kAllReduce, tag, values, TrafficKind::kStep);
}

absl::Status TransportCollectives::ReduceScatter(OperationTag tag, Elements values) {
  return Run(OperationKind::kReduceScatter, tag, values, TrafficKind::kStep);
}

absl::Status TransportCollectives::AllGather(OperationTag tag, Elements values) {
  return Run(OperationKind::kAllGather, tag, values, TrafficKind::kStep);
}

absl::Status TransportCollectives::Broadcast(DeviceSpan values) {
  return Run(OperationKind::kBroadcast, {}, values, TrafficKind::kInitial);
}

absl::Status TransportCollectives::Barrier() {
  // Infinite sums would be no error, only slow.
  std::ranges::fill(barrier_values_, 0.0f);
  return Run(OperationKind::kBarrier, {},
             DeviceSpan{.data = barrier_values_.data(),
                        .count = static_cast<int64_t>(barrier_values_.size())},
             std::nullopt);
}

absl::Status TransportCollectives::Run(OperationKind kind, OperationTag tag,
                                       Elements values,
                                       std::optional<TrafficKind> traffic) {
  RETURN_IF_ERROR(failure_);
  if (runner_ == nullptr) return absl::OkStatus();
  moves_.Clear();
  AppendMoves(options_.algorithm.For(values.bytes()), kind, values.count, position_,
              options_.order.ranks(), &moves_);
  for (int i = 0; i < moves_.size(); ++i) {
    moves_[i].peer = options_.order.RankAt(moves_[i].peer);
  }
  failure_ = runner_->Run({.header = {.kind = kind,
                                      .job_fingerprint = options_.job_fingerprint,
                                      .sequence = sequence_,
                                      .step = tag.step,
                                      .count = values.count,
                                      .bucket = tag.bucket,
                                      .element_type = values.type},
                           .moves = moves_,
                           .values = values,
                           .traffic = traffic});
  ++sequence_;
  if (!failure_.ok()) transport_->Abort(failure_);
  return failure_;
}

void TransportCollectives::Abort(absl::Status reason) {
  if (transport_ != nullptr) transport_->Abort(std::move(reason));
}

ExchangeTraffic TransportCollectives::traffic() const {
  ExchangeTraffic traffic = counters_.totals();
  const LinkTotals links = transport_ == nullptr ? LinkTotals{} : transport_->totals();
  traffic.awaiting_bytes = links.awaiting_bytes;
  traffic.awaiting_room = links.awaiting_room;
  // What happens on connections that are the carrier's own is not known.
  if (transport_ != nullptr && !transport_->counts_framing()) return traffic;
  traffic.wire_out = links.wire.out;
  traffic.wire_in = links.wire.in;
  traffic.retransmissions = links.retransmissions;
  return traffic;
}

std::string TransportCollectives::Awaited() const {
  if (transport_ == nullptr) return "";
  return absl::StrJoin(transport_->peers(), " and ", [this](std::string* out, int peer) {
    out->append(transport_->name(peer));
  });
}

}  // namespace psring
