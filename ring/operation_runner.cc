#include "ring/operation_runner.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "glog/logging.h"

// How an operation runs.
//
// To a rank, an operation is two byte streams for each of its peers, one each way: a
// header, and then the elements of the moves with that peer, in the order of the list.
// One loop moves them all: it sends what may be sent, receives what has come, and waits
// only when nothing moved.
//
// What may go is a matter of elements, not of moves: a move that trails others may go as
// far as they have come. So whatever part of a chunk has been added is at once eligible
// to be sent on, and each hop overlaps with the next. There are no segments, and no
// hand-overs between threads.
//
// An adding move receives into a small staging buffer that stays in the cache together
// with the destination, and adds whole elements from there; the odd bytes of one that is
// still coming wait in its flow. A replacing move receives where the bytes belong.
//
// A header goes out together with the first payload, and comes in with it. The header of
// a stream that only acknowledges goes when everything else is done.

namespace psring {
namespace {

constexpr size_t kMaxSendBytes = 128 * 1024;
constexpr size_t kMostElementBytes = sizeof(float);
constexpr size_t kHeaderBytes = sizeof(OperationHeader);
// How long a rank that has found itself stalled looks for who is to blame.
constexpr absl::Duration kInquiry = absl::Seconds(1);

bool IsSend(MoveKind kind) {
  return kind == MoveKind::kSend || kind == MoveKind::kAcknowledge;
}

}  // namespace

// The two streams of one peer. A direction that no move uses is done from the start.
struct OperationRunner::Flow {
  int peer = 0;
  bool sends = false;
  bool receives = false;
  bool acknowledges = false;  // Sends a header, and only at the end.
  int send = 0;               // The first move that is not done; past the end: none.
  int receive = 0;
  size_t header_sent = 0;
  size_t header_received = 0;
  OperationHeader their_header;
  std::array<std::byte, kMostElementBytes> odd = {};  // Of one that is still coming.
  size_t odd_bytes = 0;
  bool all_sent = false;
  bool all_received = false;

  bool header_is_theirs() const { return header_received == kHeaderBytes; }
};

// Where the elements that are being added wait; about what stays in the cache together
// with their destination. Whole elements of any type.
struct alignas(64) OperationRunner::Staging {
  std::array<std::byte, 64 * 1024> bytes;
};

OperationRunner::OperationRunner(Transport* transport, LinkCounters* counters,
                                 absl::Duration stall_timeout, int most_moves)
    : transport_(transport),
      counters_(counters),
      stall_timeout_(stall_timeout),
      staging_(std::make_unique<Staging>()) {
  done_bytes_.reserve(most_moves);
  flows_.reserve(transport->peers().size());
  interests_.reserve(transport->peers().size());
}

OperationRunner::~OperationRunner() = default;

absl::Status OperationRunner::Run(const Operation& operation) {
  operation_ = &operation;
  element_bytes_ = BytesOf(operation.values.type);
  Prepare();
  const absl::Status status = MoveAll();
  const absl::Status explained = status.ok() ? status : Explain(status);
  operation_ = nullptr;
  return explained;
}

void OperationRunner::Prepare() {
  const MoveList& moves = operation_->moves;
  done_bytes_.assign(moves.size(), 0);
  flows_.clear();
  for (int i = 0; i < moves.size(); ++i) {
    Flow& flow = FlowTo(moves[i].peer);
    (IsSend(moves[i].kind) ? flow.sends : flow.receives) = true;
    if (moves[i].kind == MoveKind::kAcknowledge) flow.acknowledges = true;
  }
  for (Flow& flow : flows_) {
    SkipTo(flow.send, /*sends=*/true, flow.peer);
    SkipTo(flow.receive, /*sends=*/false, flow.peer);
    flow.all_sent = !flow.sends;
    flow.all_received = !flow.receives;
  }
}

OperationRunner::Flow& OperationRunner::FlowTo(int peer) {
  for (Flow& flow : flows_) {
    if (flow.peer == peer) return flow;
  }
  Flow& flow = flows_.emplace_back();
  flow.peer = peer;
  return flow;
}

absl::Status OperationRunner::MoveAll() {
  // A rank that stalls asks before it gives up: it tells its peers that it waits, and
  // looks which of those that it waits for say the same. Who is silent is to blame. Where
  // all wait, someone else knows who is to blame, and its verdict will come.
  enum { kMoving, kStill, kAsking, kTrusting } state = kMoving;
  std::chrono::steady_clock::time_point deadline = {};
  for (;;) {
    size_t moved = 0;
    bool all_done = true;
    for (Flow& flow : flows_) {
      if (!flow.all_sent) {
        ASSIGN_OR_RETURN(const size_t sent, SendSome(flow));
        moved += sent;
      }
      if (!flow.all_received) {
        ASSIGN_OR_RETURN(const size_t received, ReceiveSome(flow));
        moved += received;
      }
      all_done = all_done && flow.all_sent && flow.all_received;
    }
    if (moved > 0 && (state == kAsking || state == kTrusting)) {
      transport_->SayWaiting(false);
    }
    if (all_done) return absl::OkStatus();
    if (moved > 0) {
      state = kMoving;
      continue;
    }
    if (state == kMoving) {
      deadline = SteadyDeadline(stall_timeout_);
      state = kStill;
    }
    auto left = deadline - std::chrono::steady_clock::now();
    if (left.count() <= 0) {
      const std::vector<int> silent = Awaited(/*silent=*/true);
      if (state == kStill) {
        transport_->SayWaiting(true);
        state = kAsking;
      } else if (!silent.empty() || state == kTrusting) {
        return StalledError(silent.empty() ? Awaited(/*silent=*/false) : silent);
      } else {
        state = kTrusting;
      }
      deadline = SteadyDeadline(state == kTrusting ? 3 * kInquiry : kInquiry);
      left = deadline - std::chrono::steady_clock::now();
    }
    const absl::Status status =
        transport_->Wait(GatherInterests(), absl::FromChrono(left));
    if (!status.ok() && !absl::IsDeadlineExceeded(status)) return status;
  }
}

absl::StatusOr<size_t> OperationRunner::SendSome(Flow& flow) {
  std::span<const std::byte> header =
      std::as_bytes(std::span(&operation_->header, 1)).subspan(flow.header_sent);
  if (!header.empty() && !HeaderMayGo(flow)) return size_t{0};
  std::span<const std::byte> payload;
  if (flow.send < operation_->moves.size()) {
    const Move& move = operation_->moves[flow.send];
    payload = operation_->values.all_bytes().subspan(
        BeginByte(move) + done_bytes_[flow.send],
        std::min(MovableBytes(flow.send), kMaxSendBytes));
  }
  if (header.empty() && payload.empty()) return size_t{0};
  ASSIGN_OR_RETURN(const size_t sent, transport_->TrySend(flow.peer, header, payload));
  const size_t of_header = std::min(sent, header.size());
  flow.header_sent += of_header;
  const size_t of_payload = sent - of_header;
  if (of_payload > 0) {
    done_bytes_[flow.send] += static_cast<int64_t>(of_payload);
    SkipTo(flow.send, /*sends=*/true, flow.peer);
    if (operation_->traffic.has_value()) {
      counters_->CountOut(*operation_->traffic, static_cast<int64_t>(of_payload));
    }
  }
  flow.all_sent =
      flow.header_sent == kHeaderBytes && flow.send == operation_->moves.size();
  return sent;
}

absl::StatusOr<size_t> OperationRunner::ReceiveSome(Flow& flow) {
  const std::span<std::byte> header =
      std::as_writable_bytes(std::span(&flow.their_header, 1))
          .subspan(flow.header_received);
  // Never beyond the current move: what follows it may belong elsewhere.
  std::span<std::byte> payload;
  if (flow.receive < operation_->moves.size()) {
    const Move& move = operation_->moves[flow.receive];
    const size_t movable = MovableBytes(flow.receive);
    if (move.kind == MoveKind::kReplace) {
      payload = operation_->values.all_bytes().subspan(
          BeginByte(move) + done_bytes_[flow.receive], movable);
    } else if (movable > flow.odd_bytes) {
      const std::span<std::byte> staging = staging_->bytes;
      std::memcpy(staging.data(), flow.odd.data(), flow.odd_bytes);
      payload = staging.first(std::min(staging.size(), movable)).subspan(flow.odd_bytes);
    }
  }
  if (header.empty() && payload.empty()) return size_t{0};
  ASSIGN_OR_RETURN(const size_t received,
                   transport_->TryReceive(flow.peer, header, payload));
  const size_t of_header = std::min(received, header.size());
  flow.header_received += of_header;
  if (of_header > 0 && flow.header_is_theirs()) {
    RETURN_IF_ERROR(CheckSameOperation(flow.their_header, operation_->header,
                                       transport_->name(flow.peer),
                                       absl::StrCat("worker ", transport_->rank())));
  }
  if (received > of_header) Deal(flow, received - of_header);
  flow.all_received = flow.header_is_theirs() && flow.receive == operation_->moves.size();
  return received;
}

// Payload of the current receiving move has come: where it belongs, or into the staging
// buffer behind the odd bytes.
void OperationRunner::Deal(Flow& flow, size_t received) {
  if (operation_->traffic.has_value()) {
    counters_->CountIn(*operation_->traffic, static_cast<int64_t>(received));
  }
  const Move& move = operation_->moves[flow.receive];
  int64_t& done = done_bytes_[flow.receive];
  if (move.kind == MoveKind::kReplace) {
    done += static_cast<int64_t>(received);
  } else {
    const size_t staged = flow.odd_bytes + received;
    const size_t whole = staged - staged % element_bytes_;
    const auto position = static_cast<size_t>(BeginByte(move) + done);
    const auto start = std::chrono::steady_clock::now();
    AddElements(operation_->values.type,
                operation_->values.all_bytes().subspan(position, whole),
                std::span(staging_->bytes).first(whole));
    working_ += std::chrono::steady_clock::now() - start;
    done += static_cast<int64_t>(whole);
    flow.odd_bytes = staged - whole;
    std::memcpy(flow.odd.data(), staging_->bytes.data() + whole, flow.odd_bytes);
  }
  SkipTo(flow.receive, /*sends=*/false, flow.peer);
}

// Steps over what is done, what is empty and what is another flow's.
void OperationRunner::SkipTo(int& move, bool sends, int peer) const {
  const MoveList& moves = operation_->moves;
  for (; move < moves.size(); ++move) {
    if (moves[move].peer == peer && IsSend(moves[move].kind) == sends &&
        done_bytes_[move] < ByteCount(moves[move])) {
      return;
    }
  }
}

// How far the move may go now: to its end, or to where one that it trails has come.
size_t OperationRunner::MovableBytes(int index) const {
  const MoveList& moves = operation_->moves;
  const Move& move = moves[index];
  const int64_t position = BeginByte(move) + done_bytes_[index];
  int64_t end = BeginByte(move) + ByteCount(move);
  for (int i = move.since; i < index; ++i) {
    const Move& earlier = moves[i];
    if (IsSend(move.kind) && IsSend(earlier.kind)) continue;
    const int64_t begin = BeginByte(earlier);
    if (done_bytes_[i] == ByteCount(earlier) || position >= begin + ByteCount(earlier)) {
      continue;
    }
    end = std::min(end, std::max(position, begin + done_bytes_[i]));
  }
  return static_cast<size_t>(end - position);
}

bool OperationRunner::HeaderMayGo(const Flow& flow) const {
  if (!flow.acknowledges) return true;
  return flow.all_received && std::ranges::all_of(flows_, [&](const Flow& other) {
           return &other == &flow || (other.all_sent && other.all_received);
         });
}

std::span<const Interest> OperationRunner::GatherInterests() {
  interests_.clear();
  for (const Flow& flow : flows_) {
    const int moves = operation_->moves.size();
    Interest interest{.peer = flow.peer};
    if (!flow.all_sent) {
      const bool now = flow.header_sent < kHeaderBytes
                           ? HeaderMayGo(flow)
                           : flow.send < moves && MovableBytes(flow.send) > 0;
      interest.send = now ? SendInterest::kNow : SendInterest::kLater;
    }
    interest.receive =
        !flow.all_received &&
        (!flow.header_is_theirs() ||
         (flow.receive < moves && MovableBytes(flow.receive) > flow.odd_bytes));
    if (interest.receive || interest.send != SendInterest::kNone) {
      interests_.push_back(interest);
    }
  }
  return interests_;
}

std::vector<int> OperationRunner::Awaited(bool silent) const {
  std::vector<int> peers;
  for (const Interest& interest : interests_) {
    if (!interest.receive && interest.send != SendInterest::kNow) continue;
    if (silent && transport_->SaysWaiting(interest.peer)) continue;
    peers.push_back(interest.peer);
  }
  return peers;
}

absl::Status OperationRunner::StalledError(const std::vector<int>& peers) const {
  std::string text =
      absl::StrCat("no byte moved for ", absl::FormatDuration(stall_timeout_));
  for (const Interest& interest : interests_) {
    if (std::ranges::find(peers, interest.peer) == peers.end()) continue;
    absl::StrAppend(&text, "; ", transport_->name(interest.peer));
    if (interest.receive) absl::StrAppend(&text, " sent nothing");
    if (interest.send == SendInterest::kNow) {
      absl::StrAppend(&text, interest.receive ? " and" : "", " took nothing");
    }
  }
  return PeerLostError(text);
}

// Others will read it, so it says whose error it is.
absl::Status OperationRunner::Explain(const absl::Status& status) const {
  if (IsRelayed(status)) return status;
  int64_t sent = 0, to_send = 0, received = 0, to_receive = 0;
  for (int i = 0; i < operation_->moves.size(); ++i) {
    const Move& move = operation_->moves[i];
    (IsSend(move.kind) ? sent : received) += done_bytes_[i];
    (IsSend(move.kind) ? to_send : to_receive) += ByteCount(move);
  }
  return Annotate(
      status, absl::StrCat("worker ", transport_->rank(), ": ",
                           Describe(operation_->header), ", received ", received, " of ",
                           to_receive, " and sent ", sent, " of ", to_send, " bytes"));
}

}  // namespace psring
