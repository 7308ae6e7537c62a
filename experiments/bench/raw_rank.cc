#include "experiments/bench/raw_rank.h"

#include <poll.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/errors.h"
#include "common/partition.h"
#include "common/ring_order.h"
#include "common/status_macros.h"
#include "common/tcp_socket.h"
#include "experiments/bench/inputs.h"
#include "ring/ring_schedule.h"

// The hops are a ring's (ring_schedule.h): what a rank receives in one it sends in the
// next, so it may send what it had of its first chunk plus what it has received so far.
// Every chunk is received where it belongs, over what was there: in the end all ranks
// have the chunk that its first sender put in, which is the rank that adds the first term
// in a real ring.
//
// Bytes go over a connection to the right and come over one from the left, with two ranks
// too: one connection both ways is slower.

namespace psring {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);
constexpr size_t kMostBytesAtOnce = 128 * 1024;

// Waits until the socket can receive, or can send.
absl::Status WaitFor(const FileDescriptor& socket, short event, const char* what) {
  pollfd polled{.fd = socket.get(), .events = event, .revents = 0};
  if (poll(&polled, 1, PollMilliseconds(kPatience)) == 0) {
    return PeerLostError(
        absl::StrCat(what, ": nothing for ", absl::FormatDuration(kPatience)));
  }
  return absl::OkStatus();
}

// The bytes of the chunks of successive hops, as one stream.
class ChunkStream {
 public:
  // Those that `rank` sends.
  ChunkStream(std::span<float> values, int rank, int ranks)
      : values_(values), rank_(rank), ranks_(ranks) {
    Enter();
  }

  bool done() const { return hop_ == RingHops(ranks_); }
  std::span<std::byte> rest() const { return rest_; }  // Of the chunk; not empty.

  void Advance(size_t bytes) {
    rest_ = rest_.subspan(bytes);
    if (rest_.empty()) {
      ++hop_;
      Enter();
    }
  }

 private:
  void Enter() {
    for (; hop_ < RingHops(ranks_); ++hop_) {
      const Range chunk = PartitionRange(static_cast<int64_t>(values_.size()), ranks_,
                                         SentChunk(rank_, hop_, ranks_));
      rest_ = std::as_writable_bytes(values_.subspan(chunk.begin, chunk.count));
      if (!rest_.empty()) return;
    }
  }

  std::span<float> values_;
  int rank_;
  int ranks_;
  int hop_ = 0;
  std::span<std::byte> rest_;
};

class RawRank final : public BenchRank {
 public:
  RawRank(int rank, int ranks)
      : rank_(rank), ranks_(ranks), listener_(ListenTcp("127.0.0.1", 0)) {}

  std::string address() const override {
    const absl::StatusOr<int> port =
        listener_.ok() ? BoundPort(*listener_) : listener_.status();
    return port.ok() ? absl::StrCat("127.0.0.1:", *port) : "";
  }

  absl::Status Connect(const std::vector<std::string>& addresses) override {
    RETURN_IF_ERROR(listener_.status());
    ASSIGN_OR_RETURN(const std::vector<SocketAddress> resolved,
                     ResolveTcp(addresses[RightOf(rank_, ranks_)]));
    ASSIGN_OR_RETURN(right_, StartConnectTcp(resolved[0]));
    RETURN_IF_ERROR(WaitFor(right_, POLLOUT, "connecting to the right"));
    RETURN_IF_ERROR(SocketError(right_));
    RETURN_IF_ERROR(WaitFor(*listener_, POLLIN, "waiting for the left"));
    ASSIGN_OR_RETURN(AcceptedTcp accepted, AcceptTcp(*listener_));
    left_ = std::move(accepted.socket);
    return absl::OkStatus();
  }

  absl::StatusOr<std::span<float>> Prepare(int64_t count) override {
    values_.resize(count);
    return values_;
  }

  absl::Status AllReduce() override {
    ChunkStream out(values_, rank_, ranks_);
    ChunkStream in(values_, LeftOf(rank_, ranks_), ranks_);
    size_t sendable = FirstChunkBytes();
    while (!out.done() || !in.done()) {
      size_t sent = 0, received = 0;
      if (!out.done() && sendable > 0) {
        const std::span<std::byte> rest = out.rest();
        ASSIGN_OR_RETURN(sent, SendTcp(right_, rest.first(std::min({rest.size(), sendable,
                                                                    kMostBytesAtOnce}))));
        out.Advance(sent);
        sendable -= sent;
      }
      if (!in.done()) {
        ASSIGN_OR_RETURN(received, ReceiveTcp(left_, in.rest()));
        in.Advance(received);
        sendable += received;
      }
      if (sent + received > 0) continue;
      pollfd polled[] = {
          {.fd = in.done() ? -1 : left_.get(), .events = POLLIN, .revents = 0},
          {.fd = out.done() || sendable == 0 ? -1 : right_.get(),
           .events = POLLOUT,
           .revents = 0}};
      if (poll(polled, std::size(polled), PollMilliseconds(kPatience)) == 0) {
        return PeerLostError(
            absl::StrCat("no byte moved for ", absl::FormatDuration(kPatience)));
      }
    }
    return absl::OkStatus();
  }

  float Expected(int ranks, int64_t operation, int64_t index) const override {
    const auto count = static_cast<int64_t>(values_.size());
    int chunk = 0;
    while (index >= PartitionRange(count, ranks, chunk).end()) ++chunk;
    return BenchInput(RingFoldRank(chunk, 0, ranks), operation, index);
  }

 private:
  size_t FirstChunkBytes() const {
    return PartitionRange(static_cast<int64_t>(values_.size()), ranks_,
                          SentChunk(rank_, 0, ranks_))
               .count *
           sizeof(float);
  }

  const int rank_;
  const int ranks_;
  const absl::StatusOr<FileDescriptor> listener_;
  FileDescriptor right_;
  FileDescriptor left_;
  std::vector<float> values_;
};

}  // namespace

std::unique_ptr<BenchRank> MakeRawRank(int rank, int ranks) {
  return std::make_unique<RawRank>(rank, ranks);
}

}  // namespace psring
