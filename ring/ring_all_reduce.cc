#include "ring/ring_all_reduce.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/arithmetic.h"
#include "common/errors.h"
#include "common/mutex.h"
#include "common/partition.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "ring/operation_header.h"
#include "ring/ring_schedule.h"

// How an operation runs.
//
// To a rank, an operation is two byte streams: one that it sends to its right and one
// that it receives from its left. Each is a header and then the chunks of successive hops
// (ring_schedule.h). A rank sends in hop h + 1 the chunk that it received in hop h, so
// the payload that it sends is
//
//     a head start (the chunk of hop 0)  +  the payload received, as it is processed
//
// and the first `head start + processed` payload bytes may be sent at any time. There are
// no segments and no hand-overs: one loop sends what may be sent, receives what has come,
// and waits only when neither moved, so each hop overlaps with the next.
//
// "Processed" means, for a hop of the reduce-scatter, that the rank's own term has been
// added: bytes are received into a small staging buffer that stays in the cache, and
// whole floats are added from there (the odd bytes of a float that is still coming stay
// until it is whole). In the all-gather, bytes are received where they belong.
//
// That is safe in place: the final value of an element comes round only after this rank's
// partial sum of it has left, because it was made from it.
//
// A broadcast is the same with a single chunk: rank 0 has all of it as its head start,
// and its left neighbour forwards nothing.

namespace psring {
namespace {

constexpr size_t kMaxSendBytes = 128 * 1024;
constexpr size_t kFloatBytes = sizeof(float);
constexpr size_t kHeaderBytes = sizeof(OperationHeader);

}  // namespace

struct RingAllReduce::Operation {
  OperationHeader header;
  TrafficKind traffic = TrafficKind::kStep;
  std::span<float> values;
  int chunks = 1;  // That the values are cut into.
  int sent_hops = 0;
  int received_hops = 0;
  int added_hops = 0;  // The first of the received; later ones replace.
  RingBytes payload;   // Over all hops.
  int64_t head_start_bytes = 0;
  // Nothing, not even the header, is sent before so much payload has been received.
  int64_t hold_bytes = 0;
};

// Where the floats that are being added wait; about what stays in the cache together
// with their destination.
struct alignas(64) RingAllReduce::Staging {
  std::array<float, 16 * 1024> floats;
};

namespace {

// A position in the chunks that `rank` sends, hop by hop.
class ChunkWalk {
 public:
  ChunkWalk(std::span<float> values, int chunks, int rank, int hops)
      : values_(values), chunks_(chunks), rank_(rank), hops_(hops) {
    EnterHop();
  }

  bool done() const { return hop_ == hops_; }
  int hop() const { return hop_; }
  // What is left of the current chunk; not empty unless done.
  std::span<std::byte> rest() const { return rest_; }

  void Advance(size_t bytes) {
    rest_ = rest_.subspan(bytes);
    if (!rest_.empty()) return;
    ++hop_;
    EnterHop();
  }

 private:
  // Stands at the start of hop_, or of the first later one whose chunk is not empty.
  void EnterHop() {
    for (; hop_ < hops_; ++hop_) {
      const Range chunk = PartitionRange(static_cast<int64_t>(values_.size()), chunks_,
                                         SentChunk(rank_, hop_, chunks_));
      rest_ = std::as_writable_bytes(values_.subspan(chunk.begin, chunk.count));
      if (!rest_.empty()) return;
    }
  }

  const std::span<float> values_;
  const int chunks_;
  const int rank_;
  const int hops_;
  int hop_ = 0;
  std::span<std::byte> rest_;
};

}  // namespace

// How far an operation has come. Byte counts are payload unless they say header.
struct RingAllReduce::Flow {
  Flow(const Operation& operation, int rank, int ranks)
      : out(operation.values, operation.chunks, rank, operation.sent_hops),
        in(operation.values, operation.chunks, LeftOf(rank, ranks),
           operation.received_hops) {}

  bool all_sent() const { return header_sent == kHeaderBytes && out.done(); }
  bool all_received() const { return header_received == kHeaderBytes && in.done(); }

  bool header_may_go(const Operation& operation) const {
    return header_sent < kHeaderBytes && processed >= operation.hold_bytes;
  }
  // Payload that may be sent now, once the header has gone.
  int64_t sendable(const Operation& operation) const {
    return std::min(operation.head_start_bytes + processed, operation.payload.out) - sent;
  }
  SendInterest send_interest(const Operation& operation) const {
    if (all_sent()) return SendInterest::kNone;
    return header_may_go(operation) ||
                   (header_sent == kHeaderBytes && sendable(operation) > 0)
               ? SendInterest::kNow
               : SendInterest::kLater;
  }

  size_t header_sent = 0;
  ChunkWalk out;
  int64_t sent = 0;

  OperationHeader their_header;
  size_t header_received = 0;
  ChunkWalk in;  // Where the next float is added, or the next byte received.
  int64_t received = 0;
  int64_t processed = 0;  // Less than `received` by what is staged.
};

RingAllReduce::RingAllReduce(int rank, int ranks, Transport* transport,
                             LinkCounters* counters, RingOptions options)
    : rank_(rank),
      ranks_(ranks),
      transport_(transport),
      counters_(counters),
      options_(options),
      staging_(std::make_unique<Staging>()) {
  CHECK(0 <= rank && rank < ranks);
  CHECK_EQ(transport == nullptr, ranks == 1);
}

RingAllReduce::~RingAllReduce() = default;

absl::Status RingAllReduce::Sum(int64_t step, const Bucket& bucket, DeviceSpan values) {
  CHECK_EQ(values.count, bucket.range.count);
  if (ranks_ == 1) return absl::OkStatus();
  const int first_chunk = SentChunk(rank_, 0, ranks_);
  const int64_t head_start = PartitionRange(values.count, ranks_, first_chunk).count;
  return Run({.header = {.kind = OperationKind::kAllReduce,
                         .job_fingerprint = options_.job_fingerprint,
                         .sequence = sequence_,
                         .step = step,
                         .count = values.count,
                         .bucket = bucket.index},
              .traffic = TrafficKind::kStep,
              .values = values.host(),
              .chunks = ranks_,
              .sent_hops = RingHops(ranks_),
              .received_hops = RingHops(ranks_),
              .added_hops = ReduceScatterHops(ranks_),
              .payload = AllReduceBytes(values.count, rank_, ranks_),
              .head_start_bytes = head_start * int64_t{kFloatBytes}});
}

absl::Status RingAllReduce::Broadcast(DeviceSpan values) {
  if (ranks_ == 1) return absl::OkStatus();
  const RingBytes payload = BroadcastBytes(values.count, rank_, ranks_);
  const bool first = rank_ == 0;
  const bool last = rank_ == ranks_ - 1;
  return Run({.header = {.kind = OperationKind::kBroadcast,
                         .job_fingerprint = options_.job_fingerprint,
                         .sequence = sequence_,
                         .count = values.count},
              .traffic = TrafficKind::kInitial,
              .values = values.host(),
              .sent_hops = last ? 0 : 1,
              .received_hops = first ? 0 : 1,
              .payload = payload,
              .head_start_bytes = first ? payload.out : 0,
              // The header that closes the ring tells rank 0 that all have the values.
              .hold_bytes = last ? payload.in : 0});
}

absl::Status RingAllReduce::Run(const Operation& operation) {
  RETURN_IF_ERROR(failure_);
  Flow flow(operation, rank_, ranks_);
  const absl::Status status = MoveAll(operation, flow);
  if (status.ok()) {
    ++sequence_;
    return status;
  }
  // Whose error it is, whoever carries it to others says in front of it.
  failure_ = Annotate(
      status, absl::StrCat(Describe(operation.header), ", hop ", flow.in.hop(), " of ",
                           operation.received_hops, ", received ", flow.received, " of ",
                           operation.payload.in, " and sent ", flow.sent, " of ",
                           operation.payload.out, " bytes"));
  transport_->Abort(failure_);
  return failure_;
}

absl::Status RingAllReduce::MoveAll(const Operation& operation, Flow& flow) {
  std::chrono::steady_clock::time_point give_up = {};
  bool moving = true;
  while (!flow.all_sent() || !flow.all_received()) {
    ASSIGN_OR_RETURN(const size_t sent, SendSome(operation, flow));
    ASSIGN_OR_RETURN(const size_t received, ReceiveSome(operation, flow));
    if (sent + received > 0) {
      moving = true;
      continue;
    }
    if (moving) give_up = SteadyDeadline(options_.stall_timeout);
    moving = false;
    const auto left = give_up - std::chrono::steady_clock::now();
    if (left.count() <= 0) return StalledError(operation, flow);
    const absl::Status status = transport_->Wait(
        flow.send_interest(operation), !flow.all_received(), absl::FromChrono(left));
    if (!status.ok() && !absl::IsDeadlineExceeded(status)) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> RingAllReduce::SendSome(const Operation& operation, Flow& flow) {
  if (flow.header_sent < kHeaderBytes) {
    if (!flow.header_may_go(operation)) return size_t{0};
    ASSIGN_OR_RETURN(
        const size_t sent,
        transport_->TrySend(
            std::as_bytes(std::span(&operation.header, 1)).subspan(flow.header_sent)));
    flow.header_sent += sent;
    return sent;
  }
  const int64_t sendable = flow.sendable(operation);
  if (sendable == 0) return size_t{0};
  const std::span<const std::byte> rest = flow.out.rest();
  const size_t wanted =
      std::min({rest.size(), static_cast<size_t>(sendable), kMaxSendBytes});
  ASSIGN_OR_RETURN(const size_t sent, transport_->TrySend(rest.first(wanted)));
  flow.out.Advance(sent);
  flow.sent += static_cast<int64_t>(sent);
  counters_->CountOut(operation.traffic, static_cast<int64_t>(sent));
  return sent;
}

absl::StatusOr<size_t> RingAllReduce::ReceiveSome(const Operation& operation,
                                                  Flow& flow) {
  if (flow.header_received < kHeaderBytes) return ReceiveHeader(operation, flow);
  if (flow.in.done()) return size_t{0};
  const bool adding = flow.in.hop() < operation.added_hops;
  const std::span<std::byte> rest = flow.in.rest();
  const std::span<std::byte> staging =
      std::as_writable_bytes(std::span(staging_->floats));
  const auto staged = static_cast<size_t>(flow.received - flow.processed);

  // Never beyond the current chunk: what follows it may belong elsewhere.
  const std::span<std::byte> buffer =
      adding ? staging.first(std::min(staging.size(), rest.size())).subspan(staged)
             : rest;
  ASSIGN_OR_RETURN(const size_t received, transport_->TryReceive(buffer));
  flow.received += static_cast<int64_t>(received);
  counters_->CountIn(operation.traffic, static_cast<int64_t>(received));

  size_t processed = received;
  if (adding) {
    const size_t whole = (staged + received) / kFloatBytes;
    AddInPlace({reinterpret_cast<float*>(rest.data()), whole},
               std::span(staging_->floats).first(whole));
    processed = whole * kFloatBytes;
    std::memmove(staging.data(), staging.data() + processed,
                 staged + received - processed);
  }
  flow.in.Advance(processed);
  flow.processed += static_cast<int64_t>(processed);
  return received;
}

absl::StatusOr<size_t> RingAllReduce::ReceiveHeader(const Operation& operation,
                                                    Flow& flow) {
  ASSIGN_OR_RETURN(
      const size_t received,
      transport_->TryReceive(std::as_writable_bytes(std::span(&flow.their_header, 1))
                                 .subspan(flow.header_received)));
  flow.header_received += received;
  if (flow.header_received == kHeaderBytes) {
    RETURN_IF_ERROR(CheckSameOperation(flow.their_header, operation.header,
                                       transport_->left(),
                                       absl::StrCat("worker ", rank_)));
  }
  return received;
}

absl::Status RingAllReduce::StalledError(const Operation& operation,
                                         const Flow& flow) const {
  std::string text =
      absl::StrCat("no byte moved for ", absl::FormatDuration(options_.stall_timeout));
  if (!flow.all_received()) {
    absl::StrAppend(&text, "; ", transport_->left(), " sent nothing");
  }
  if (flow.send_interest(operation) == SendInterest::kNow) {
    absl::StrAppend(&text, "; ", transport_->right(), " took nothing");
  }
  return PeerLostError(text);
}

}  // namespace psring
