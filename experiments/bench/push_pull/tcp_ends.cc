#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <thread>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/errors.h"
#include "common/status_macros.h"
#include "common/tcp_socket.h"
#include "experiments/bench/push_pull/ends.h"
#include "glog/logging.h"

// A slot goes back when it is here as a whole, as from a server that has to do something
// with it, while the next one comes in.

namespace psring {
namespace {

// So that sending and receiving alternate where both are possible.
constexpr size_t kMostBytesAtOnce = 128 * 1024;

// Blocks until one of them is ready; kDeadlineExceeded.
absl::Status Poll(std::span<pollfd> polled, absl::Duration patience) {
  int ready;
  do {
    ready = poll(polled.data(), polled.size(), PollMilliseconds(patience));
  } while (ready < 0 && errno == EINTR);
  if (ready < 0) return absl::InternalError(absl::StrCat("poll: ", strerror(errno)));
  if (ready > 0) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat("nothing for ", absl::FormatDuration(patience)));
}

// The bytes of slots one after the other.
class Cursor {
 public:
  Cursor() = default;
  explicit Cursor(std::vector<std::span<std::byte>> slots) : slots_(std::move(slots)) {}

  void Rewind() { slot_ = done_ = 0; }
  bool done() const { return slot_ == slots_.size(); }
  std::span<std::byte> next() const {
    const std::span<std::byte> rest = slots_[slot_].subspan(done_);
    return rest.first(std::min(rest.size(), kMostBytesAtOnce));
  }
  void Advance(size_t bytes) {
    done_ += bytes;
    if (done_ < slots_[slot_].size()) return;
    ++slot_;
    done_ = 0;
  }

 private:
  std::vector<std::span<std::byte>> slots_;  // None is empty.
  size_t slot_ = 0;
  size_t done_ = 0;  // Of that slot.
};

// A server's end of a connection: slots of known sizes, over and over.
class SlotEcho {
 public:
  SlotEcho(FileDescriptor socket, std::vector<size_t> slot_bytes, int echoes)
      : socket_(std::move(socket)), slot_bytes_(std::move(slot_bytes)), echoes_(echoes) {
    for (std::vector<std::byte>& buffer : buffers_) {
      buffer.resize(*std::max_element(slot_bytes_.begin(), slot_bytes_.end()));
    }
  }

  // Until the worker closes the connection or `stop` is readable.
  absl::Status Run(int stop) {
    for (;;) {
      size_t moved = 0;
      if (sent_ < received_) {
        const size_t bytes = BytesOf(sent_);
        const size_t at = out_ % bytes;
        const std::span<const std::byte> slot(BufferOf(sent_).data(), bytes);
        ASSIGN_OR_RETURN(const size_t sent,
                         SendTcp(socket_, slot.subspan(at).first(
                                              std::min(bytes - at, kMostBytesAtOnce))));
        out_ += sent;
        moved += sent;
        if (out_ == bytes * echoes_) {
          out_ = 0;
          ++sent_;
        }
      }
      if (may_receive()) {
        const std::span<std::byte> slot(BufferOf(received_).data(), BytesOf(received_));
        const std::span<std::byte> rest = slot.subspan(in_);
        ASSIGN_OR_RETURN(
            const size_t received,
            ReceiveTcp(socket_, rest.first(std::min(rest.size(), kMostBytesAtOnce))));
        in_ += received;
        moved += received;
        if (in_ == slot.size()) {
          in_ = 0;
          ++received_;
        }
      }
      if (moved > 0) continue;
      const int wanted = (may_receive() ? POLLIN : 0) | (sent_ < received_ ? POLLOUT : 0);
      pollfd polled[] = {
          {.fd = socket_.get(), .events = static_cast<short>(wanted), .revents = 0},
          {.fd = stop, .events = POLLIN, .revents = 0}};
      RETURN_IF_ERROR(Poll(polled, absl::InfiniteDuration()));
      if (polled[1].revents != 0) return absl::OkStatus();
    }
  }

 private:
  size_t BytesOf(size_t slot) const { return slot_bytes_[slot % slot_bytes_.size()]; }
  std::vector<std::byte>& BufferOf(size_t slot) {
    return buffers_[slot % buffers_.size()];
  }
  // The buffer of the slot that comes next is not being sent.
  bool may_receive() const { return received_ - sent_ < buffers_.size(); }

  const FileDescriptor socket_;
  const std::vector<size_t> slot_bytes_;  // Of a worker's slots here, in order.
  const size_t echoes_;
  std::array<std::vector<std::byte>, 2> buffers_;
  size_t received_ = 0, sent_ = 0;  // Slots, in full, of all operations.
  size_t in_ = 0, out_ = 0;         // Bytes of the next one of each.
};

class TcpServer final : public PushPullServer {
 public:
  explicit TcpServer(int server) : server_(server) {}
  ~TcpServer() override { Stop(); }

  absl::StatusOr<std::string> Open(const PushPullPlan& plan) override {
    Stop();
    stop_ = FileDescriptor(eventfd(0, EFD_CLOEXEC));
    if (!stop_.open()) {
      return absl::InternalError(absl::StrCat("eventfd: ", strerror(errno)));
    }
    std::vector<size_t> slot_bytes;
    for (const int slot : plan.slots.of_server[server_]) {
      slot_bytes.push_back(plan.wire.EncodedBytes(plan.slots.slots[slot].range.count));
    }
    ASSIGN_OR_RETURN(FileDescriptor listener, ListenTcp("127.0.0.1", 0));
    ASSIGN_OR_RETURN(const int port, BoundPort(listener));
    serving_ = std::thread([this, listener = std::move(listener),
                            slot_bytes = std::move(slot_bytes), workers = plan.workers,
                            echoes = plan.echoes()] {
      // One per worker.
      std::vector<std::thread> connections;
      const absl::Status status = Accept(listener, workers, [&](FileDescriptor socket) {
        connections.emplace_back(
            [this, &slot_bytes, echoes, socket = std::move(socket)]() mutable {
              Serve(std::move(socket), slot_bytes, echoes);
            });
      });
      if (!status.ok()) LOG(ERROR) << "accepting workers: " << status;
      for (std::thread& connection : connections) connection.join();
    });
    return absl::StrCat("127.0.0.1:", port);
  }

 private:
  absl::Status Accept(const FileDescriptor& listener, int workers,
                      absl::FunctionRef<void(FileDescriptor socket)> accepted) const {
    while (workers > 0) {
      ASSIGN_OR_RETURN(AcceptedTcp next, AcceptTcp(listener));
      if (next.socket.open()) {
        accepted(std::move(next.socket));
        --workers;
        continue;
      }
      pollfd polled[] = {{.fd = listener.get(), .events = POLLIN, .revents = 0},
                         {.fd = stop_.get(), .events = POLLIN, .revents = 0}};
      RETURN_IF_ERROR(Poll(polled, absl::InfiniteDuration()));
      if (polled[1].revents != 0) return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  void Serve(FileDescriptor socket, const std::vector<size_t>& slot_bytes,
             int echoes) const {
    if (slot_bytes.empty()) return;  // Nothing will come.
    const absl::Status status =
        SlotEcho(std::move(socket), slot_bytes, echoes).Run(stop_.get());
    // A worker leaves for the next size.
    if (!status.ok()) LOG(INFO) << "a worker " << status.message();
  }

  void Stop() {
    if (!serving_.joinable()) return;
    const uint64_t one = 1;
    PCHECK(write(stop_.get(), &one, sizeof one) == sizeof one);
    serving_.join();
  }

  const int server_;
  FileDescriptor stop_;  // Readable once threads are to end.
  std::thread serving_;  // Accepts, and waits for a thread per worker.
};

class TcpWorker final : public PushPullWorker {
 public:
  absl::Status Connect(const PushPullPlan& plan, std::span<float> gradients,
                       std::span<float> parameters,
                       const std::vector<std::string>& servers) override {
    for (size_t server = 0; server < servers.size(); ++server) {
      Link& link = links_.emplace_back();
      std::vector<std::span<std::byte>> pushes, answers;
      for (const SlotBytes& slot :
           SlotBytesOf(plan, static_cast<int>(server), gradients, parameters)) {
        pushes.push_back(slot.push);
        answers.push_back(slot.answer);
      }
      link.out = Cursor(std::move(pushes));
      link.in = Cursor(std::move(answers));
      ASSIGN_OR_RETURN(const std::vector<SocketAddress> resolved,
                       ResolveTcp(servers[server]));
      ASSIGN_OR_RETURN(link.socket, StartConnectTcp(resolved[0]));
      pollfd polled{.fd = link.socket.get(), .events = POLLOUT, .revents = 0};
      RETURN_IF_ERROR(Annotate(Poll({&polled, 1}, kEndPatience),
                               absl::StrCat("connecting to server ", server)));
      RETURN_IF_ERROR(
          Annotate(SocketError(link.socket), absl::StrCat("server ", server)));
    }
    return absl::OkStatus();
  }

  absl::Status Exchange(bool) override {
    for (Link& link : links_) {
      link.out.Rewind();
      link.in.Rewind();
    }
    for (;;) {
      bool moved = false;
      polled_.clear();
      for (size_t server = 0; server < links_.size(); ++server) {
        Link& link = links_[server];
        const absl::StatusOr<size_t> bytes = Move(link);
        if (!bytes.ok()) {
          return Annotate(bytes.status(), absl::StrCat("server ", server));
        }
        moved = moved || *bytes > 0;
        const int wanted =
            (link.in.done() ? 0 : POLLIN) | (link.out.done() ? 0 : POLLOUT);
        if (wanted == 0) continue;
        polled_.push_back({.fd = link.socket.get(),
                           .events = static_cast<short>(wanted),
                           .revents = 0});
      }
      if (polled_.empty()) return absl::OkStatus();
      if (moved) continue;
      const absl::Status ready = Poll(polled_, kEndPatience);
      if (absl::IsDeadlineExceeded(ready)) return MissingError();
      RETURN_IF_ERROR(ready);
    }
  }

  void Close() override { links_.clear(); }

  bool echoes() const override { return true; }

 private:
  struct Link {
    FileDescriptor socket;
    Cursor out, in;
  };

  // What can be moved at once, a part each way.
  static absl::StatusOr<size_t> Move(Link& link) {
    size_t moved = 0;
    if (!link.out.done()) {
      ASSIGN_OR_RETURN(const size_t sent, SendTcp(link.socket, link.out.next()));
      if (sent > 0) link.out.Advance(sent);
      moved += sent;
    }
    if (!link.in.done()) {
      ASSIGN_OR_RETURN(const size_t received, ReceiveTcp(link.socket, link.in.next()));
      if (received > 0) link.in.Advance(received);
      moved += received;
    }
    return moved;
  }

  absl::Status MissingError() const {
    std::vector<std::string> missing;
    for (size_t server = 0; server < links_.size(); ++server) {
      if (!links_[server].in.done()) missing.push_back(absl::StrCat("server ", server));
    }
    return PeerLostError(absl::StrCat("no byte moved for ",
                                      absl::FormatDuration(kEndPatience),
                                      "; missing: ", absl::StrJoin(missing, ", ")));
  }

  std::vector<Link> links_;     // By server.
  std::vector<pollfd> polled_;  // Kept for its memory.
};

}  // namespace

std::unique_ptr<PushPullServer> MakeTcpServer(int server) {
  return std::make_unique<TcpServer>(server);
}

std::unique_ptr<PushPullWorker> MakeTcpWorker() { return std::make_unique<TcpWorker>(); }

}  // namespace psring
