#include "tests/push_relay.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace psring {
namespace {

// A connection carries HTTP/2: a preface from the client, then frames in both directions,
// each with a head that starts with the payload's length (3 bytes, big endian) and its
// type. One call is all there is, so that the payloads of its DATA frames, one after the
// other, are gRPC's messages, each behind a byte of flags and its length (4 bytes, big
// endian).
constexpr size_t kPrefaceBytes = 24;
constexpr size_t kFrameHeadBytes = 9;
constexpr size_t kMessageHeadBytes = 5;
constexpr std::byte kDataFrame{0};

int64_t BigEndian(std::span<const std::byte> bytes) {
  int64_t value = 0;
  for (const std::byte byte : bytes) value = value << 8 | std::to_integer<int64_t>(byte);
  return value;
}

bool IsData(std::span<const std::byte> frame) { return frame[3] == kDataFrame; }

void AwaitReady(const FileDescriptor& socket, short events) {
  pollfd descriptor{.fd = socket.get(), .events = events, .revents = 0};
  // Ends with what it waits for or, at the latest, when the destructor shuts all down.
  (void)poll(&descriptor, 1, -1);
}

// False: the connection has ended first.
bool ReceiveAll(const FileDescriptor& socket, std::span<std::byte> buffer) {
  while (!buffer.empty()) {
    const absl::StatusOr<size_t> received = ReceiveTcp(socket, buffer);
    if (!received.ok()) return false;
    if (*received == 0) AwaitReady(socket, POLLIN);
    buffer = buffer.subspan(*received);
  }
  return true;
}

bool SendAll(const FileDescriptor& socket, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const absl::StatusOr<size_t> sent = SendTcp(socket, bytes);
    if (!sent.ok()) return false;
    if (*sent == 0) AwaitReady(socket, POLLOUT);
    bytes = bytes.subspan(*sent);
  }
  return true;
}

bool ReceiveFrame(const FileDescriptor& socket, std::vector<std::byte>* frame) {
  frame->resize(kFrameHeadBytes);
  if (!ReceiveAll(socket, *frame)) return false;
  frame->resize(kFrameHeadBytes + BigEndian(std::span(*frame).first(3)));
  return ReceiveAll(socket, std::span(*frame).subspan(kFrameHeadBytes));
}

absl::StatusOr<FileDescriptor> ConnectTo(const std::string& address) {
  ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses, ResolveTcp(address));
  ASSIGN_OR_RETURN(FileDescriptor socket, StartConnectTcp(addresses.front()));
  AwaitReady(socket, POLLOUT);
  RETURN_IF_ERROR(SocketError(socket));
  return socket;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PushRelay>> PushRelay::Start(Options options) {
  ASSIGN_OR_RETURN(FileDescriptor listener, ListenTcp(options.host, options.port));
  return std::unique_ptr<PushRelay>(
      new PushRelay(std::move(options), std::move(listener)));
}

PushRelay::PushRelay(Options options, FileDescriptor listener)
    : options_(std::move(options)),
      listener_(std::move(listener)),
      accepting_([this] { Accept(); }) {}

PushRelay::~PushRelay() {
  shutdown(listener_.get(), SHUT_RDWR);
  accepting_.join();
  for (const auto& link : links_) {
    shutdown(link->worker.get(), SHUT_RDWR);
    shutdown(link->server.get(), SHUT_RDWR);
    link->requests.join();
    link->answers.join();
  }
}

bool PushRelay::AwaitVictim(absl::Duration timeout) {
  return Await(Stage::kVictimHere, timeout);
}

bool PushRelay::AwaitCut(absl::Duration timeout) { return Await(Stage::kCut, timeout); }

void PushRelay::Accept() {
  while (true) {
    AwaitReady(listener_, POLLIN);
    absl::StatusOr<AcceptedTcp> accepted = AcceptTcp(listener_);
    if (!accepted.ok()) return;  // The destructor has shut it down.
    if (!accepted->socket.open()) continue;
    absl::StatusOr<FileDescriptor> server = ConnectTo(options_.server);
    if (!server.ok()) {
      LOG(ERROR) << "cannot relay to " << options_.server << ": " << server.status();
      continue;
    }
    const bool watched = links_.empty();
    Link* const link = links_.emplace_back(std::make_unique<Link>()).get();
    link->worker = std::move(accepted->socket);
    link->server = *std::move(server);
    link->requests = std::thread([this, link, watched] { RelayRequests(link, watched); });
    link->answers = std::thread([this, link, watched] { RelayAnswers(link, watched); });
    if (watched) Enter(Stage::kVictimHere);
  }
}

void PushRelay::RelayRequests(Link* link, bool watched) {
  Position position;
  std::vector<std::byte> bytes(kPrefaceBytes);
  bool alive = ReceiveAll(link->worker, bytes) && SendAll(link->server, bytes);
  while (alive && ReceiveFrame(link->worker, &bytes)) {
    if (position.cut) continue;
    const size_t passing = watched ? BytesBeforeCut(bytes, &position) : bytes.size();
    alive = SendAll(link->server, std::span(bytes).first(passing));
    if (position.cut) Enter(Stage::kCut);
  }
  // The server sees the worker's end behind what has passed.
  shutdown(link->server.get(), SHUT_WR);
}

void PushRelay::RelayAnswers(Link* link, bool watched) {
  std::vector<std::byte> frame;
  bool alive = true;
  while (alive && ReceiveFrame(link->server, &frame)) {
    // Frames without data pass: the server's permission to send more is among them.
    if (watched && IsData(frame) && HoldsBack()) {
      Enter(Stage::kCut);
      continue;
    }
    alive = SendAll(link->worker, frame);
  }
  shutdown(link->worker.get(), SHUT_WR);
}

size_t PushRelay::BytesBeforeCut(std::span<const std::byte> frame, Position* position) {
  if (!IsData(frame)) return frame.size();
  size_t at = kFrameHeadBytes;
  while (at < frame.size()) {
    if (position->message_left == 0) {
      position->head.push_back(frame[at++]);
      if (position->head.size() < kMessageHeadBytes) continue;
      position->message_left = BigEndian(std::span(position->head).subspan(1));
      position->head.clear();
      if (position->message_left < options_.push_bytes) continue;
      if (position->pushes++ != options_.push) continue;
      // What the worker sent before has been answered, so this starts a frame.
      CHECK_EQ(at, kFrameHeadBytes + kMessageHeadBytes);
      switch (options_.cut) {
        case Cut::kBefore:
          position->cut = true;
          return 0;
        case Cut::kWithin:
          position->until_cut = position->message_left / 2;
          break;
        case Cut::kAfter:
          // From before the server can know of the push.
          Enter(Stage::kHoldingBack);
          break;
      }
    } else {
      const int64_t count = std::min<int64_t>(position->message_left, frame.size() - at);
      if (position->until_cut.has_value()) {
        if (*position->until_cut <= count) {
          position->cut = true;
          return at + *position->until_cut;
        }
        *position->until_cut -= count;
      }
      position->message_left -= count;
      at += count;
    }
  }
  return frame.size();
}

bool PushRelay::HoldsBack() {
  MutexLock lock(&mutex_);
  return options_.cut == Cut::kAfter && stage_ >= Stage::kHoldingBack;
}

void PushRelay::Enter(Stage stage) {
  MutexLock lock(&mutex_);
  stage_ = stage;
  changed_.NotifyAll();
}

bool PushRelay::Await(Stage stage, absl::Duration timeout) {
  MutexLock lock(&mutex_);
  const auto deadline = SteadyDeadline(timeout);
  while (stage_ < stage) {
    if (changed_.WaitUntil(&mutex_, deadline)) break;
  }
  return stage_ >= stage;
}

}  // namespace psring
