#include "ring/delayed_transport.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/errors.h"
#include "glog/logging.h"

// How bytes go through.
//
// The rank's calls only touch two buffers for each peer: TrySend puts bytes into a delay
// line, each with the time at which it is due, and TryReceive takes bytes out of a pipe.
// The thread moves what is due from the line into the transport below, and what has come
// from there into the pipe, and waits for the first of: more bytes that come, the next
// byte to be due, room below for those that are. Whatever the rank does that the thread
// would otherwise notice too late wakes it.
//
// A peer that is lost concerns its own line only: the others go on.

namespace psring {
namespace {

// What is received at once.
constexpr size_t kReceiveBytes = 128 * 1024;
constexpr size_t kMostReceivedBytes = 1 << 20;
// How long bytes that are due wait for a peer to take them, at the end.
constexpr absl::Duration kClosePatience = absl::Seconds(10);
constexpr absl::Duration kAbortPatience = absl::Seconds(1);

std::vector<Transport::Peer> PeersOf(const Transport& transport) {
  std::vector<Transport::Peer> peers;
  for (const int peer : transport.peers()) {
    peers.push_back({.rank = peer,
                     .name = transport.name(peer),
                     .opening = transport.totals(peer).wire});
  }
  return peers;
}

}  // namespace

DelayedTransport::DelayedTransport(std::unique_ptr<Transport> transport, Options options,
                                   const TimeSource* time)
    : Transport(transport->rank(), PeersOf(*transport), transport->counts_framing()),
      time_(time),
      transport_(std::move(transport)),
      received_(kReceiveBytes) {
  {
    MutexLock lock(&mutex_);
    for (const int peer : peers()) {
      const absl::Duration delay = options.delays.at(peer);
      CHECK(delay >= absl::ZeroDuration());
      Line& line = lines_
                       .insert({peer, Line{.delay = delay,
                                           .out = DelayLine(options.most_held_bytes),
                                           .in = {},
                                           .lost = {},
                                           .ended = {}}})
                       .first->second;
      // Bytes wait at their sender: here, only until they are taken.
      line.in.Resize(std::min(options.most_held_bytes, kMostReceivedBytes));
    }
  }
  thread_ = std::thread([this] { Run(); });
}

DelayedTransport::~DelayedTransport() {
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    WakeThreadLocked();
  }
  thread_.join();
}

absl::StatusOr<size_t> DelayedTransport::DoTrySend(int peer,
                                                   std::span<const std::byte> first,
                                                   std::span<const std::byte> second) {
  MutexLock lock(&mutex_);
  Line& line = lines_.at(peer);
  if (!line.lost.ok()) return line.lost;
  const absl::Duration due = time_->Elapsed() + line.delay;
  const size_t taken = line.out.Put(first, second, due);
  if (taken > 0 && due < wakes_) WakeThreadLocked();
  return taken;
}

absl::StatusOr<size_t> DelayedTransport::DoTryReceive(int peer,
                                                      std::span<std::byte> first,
                                                      std::span<std::byte> second) {
  MutexLock lock(&mutex_);
  Line& line = lines_.at(peer);
  if (line.in.empty() && !line.ended.ok()) return line.ended;
  const bool full = line.in.full();
  size_t taken = line.in.Take(first);
  if (taken == first.size()) taken += line.in.Take(second);
  if (full && taken > 0) WakeThreadLocked();  // It had stopped receiving.
  return taken;
}

absl::StatusOr<Transport::Cause> DelayedTransport::DoWait(
    std::span<const Interest> interests, absl::Duration timeout) {
  const auto deadline = SteadyDeadline(timeout);
  MutexLock lock(&mutex_);
  for (bool timed_out = false;;) {
    if (abort_reason_.has_value() || std::exchange(woken_, false)) return Cause{};
    for (const Interest& interest : interests) {
      const Line& line = lines_.at(interest.peer);
      if (interest.send != SendInterest::kNone && !line.lost.ok()) return line.lost;
      if (interest.receive && (!line.in.empty() || !line.ended.ok())) {
        return Cause{.peer = interest.peer};
      }
      if (interest.send == SendInterest::kNow && line.out.room() > 0) {
        return Cause{.peer = interest.peer, .room = true};
      }
    }
    if (timed_out) return absl::DeadlineExceededError("nothing moved");
    timed_out = changed_.WaitUntil(&mutex_, deadline);
  }
}

void DelayedTransport::DoWake() {
  MutexLock lock(&mutex_);
  woken_ = true;
  changed_.NotifyAll();
}

void DelayedTransport::DoSayWaiting(bool waiting) {
  MutexLock lock(&mutex_);
  say_waiting_ = waiting;
  WakeThreadLocked();
}

bool DelayedTransport::DoSaysWaiting(int peer) {
  MutexLock lock(&mutex_);
  ask_ = peer;
  answer_ = false;
  WakeThreadLocked();
  while (ask_.has_value() && !abort_reason_.has_value()) changed_.Wait(&mutex_);
  return answer_;
}

void DelayedTransport::DoAbort(const Failure& reason) {
  MutexLock lock(&mutex_);
  abort_reason_ = reason;
  WakeThreadLocked();
}

int64_t DelayedTransport::DoRetransmissions(int peer) const {
  return transport_->totals(peer).retransmissions;
}

void DelayedTransport::Run() {
  do {
    for (bool moved = true; moved;) {
      moved = false;
      for (const int peer : peers()) {
        moved = SendDue(peer) || moved;
        moved = Receive(peer) || moved;
      }
    }
    Speak();
  } while (Await());
  std::optional<Failure> reason;
  {
    MutexLock lock(&mutex_);
    reason = abort_reason_;
  }
  if (reason.has_value()) transport_->Abort(FromFailure(*reason));
}

bool DelayedTransport::SendDue(int peer) {
  std::array<std::span<const std::byte>, 2> due;
  {
    MutexLock lock(&mutex_);
    due = lines_.at(peer).out.Due(time_->Elapsed());
  }
  if (due[0].empty()) return false;
  const absl::StatusOr<size_t> sent = transport_->TrySend(peer, due[0], due[1]);
  MutexLock lock(&mutex_);
  Line& line = lines_.at(peer);
  if (!sent.ok()) {
    LoseLocked(line, sent.status());
    return false;
  }
  if (*sent == 0) return false;
  line.out.Drop(*sent);
  stuck_since_.reset();
  changed_.NotifyAll();
  return true;
}

bool DelayedTransport::Receive(int peer) {
  size_t room = 0;
  {
    MutexLock lock(&mutex_);
    const Line& line = lines_.at(peer);
    if (line.ended.ok()) room = std::min(line.in.room(), received_.size());
  }
  if (room == 0) return false;
  const absl::StatusOr<size_t> received =
      transport_->TryReceive(peer, std::span(received_).first(room));
  MutexLock lock(&mutex_);
  Line& line = lines_.at(peer);
  if (!received.ok()) {
    line.ended = received.status();
    LoseLocked(line, received.status());
    return false;
  }
  if (*received == 0) return false;
  CHECK_EQ(line.in.Put(std::span(received_).first(*received)), *received);
  changed_.NotifyAll();
  return true;
}

void DelayedTransport::Speak() {
  std::optional<bool> say_waiting;
  std::optional<int> ask;
  {
    MutexLock lock(&mutex_);
    say_waiting = std::exchange(say_waiting_, std::nullopt);
    ask = ask_;
  }
  if (say_waiting.has_value()) transport_->SayWaiting(*say_waiting);
  if (!ask.has_value()) return;
  const bool answer = transport_->SaysWaiting(*ask);
  MutexLock lock(&mutex_);
  answer_ = answer;
  ask_ = std::nullopt;
  changed_.NotifyAll();
}

bool DelayedTransport::Await() {
  absl::Duration timeout;
  {
    MutexLock lock(&mutex_);
    const std::optional<absl::Duration> planned = PlanWaitLocked();
    if (!planned.has_value()) return false;
    timeout = *planned;
    if (say_waiting_.has_value() || ask_.has_value()) return true;
    wakes_ = time_->Elapsed() + timeout;
    if (interests_.empty()) {
      // Every peer is lost, or the rank has to take what has come: the transport below
      // has nothing to wait for.
      changed_.WaitUntil(&mutex_, SteadyDeadline(timeout));
      wakes_ = -absl::InfiniteDuration();
      return true;
    }
  }
  const absl::Status waited = transport_->Wait(interests_, timeout);
  {
    MutexLock lock(&mutex_);
    wakes_ = -absl::InfiniteDuration();
  }
  if (!waited.ok() && !absl::IsDeadlineExceeded(waited)) FindLost(waited);
  return true;
}

// Sets interests_ and returns how long to wait at most; nothing: it is over.
std::optional<absl::Duration> DelayedTransport::PlanWaitLocked() {
  absl::Duration timeout = absl::InfiniteDuration();
  bool holds = false;
  bool any_due = false;
  interests_.clear();
  const absl::Duration now = time_->Elapsed();
  for (const auto& [peer, line] : lines_) {
    Interest interest{.peer = peer};
    if (line.lost.ok()) {
      const absl::Duration until_due = line.out.NextDue() - now;
      const bool is_due = until_due <= absl::ZeroDuration();
      // That a peer has left is of interest at any time.
      interest.send = is_due ? SendInterest::kNow : SendInterest::kLater;
      if (!is_due) timeout = std::min(timeout, until_due);
      any_due = any_due || is_due;
    }
    interest.receive = line.ended.ok() && !line.in.full();
    if (interest.receive || interest.send != SendInterest::kNone) {
      interests_.push_back(interest);
    }
    holds = holds || !line.out.empty();
  }
  if (!closing_ && !abort_reason_.has_value()) return timeout;
  if (!holds) return std::nullopt;
  if (any_due) {
    const auto steady_now = std::chrono::steady_clock::now();
    const absl::Duration left =
        (abort_reason_.has_value() ? kAbortPatience : kClosePatience) -
        absl::FromChrono(steady_now - stuck_since_.value_or(steady_now));
    if (left <= absl::ZeroDuration()) return std::nullopt;
    if (!stuck_since_.has_value()) stuck_since_ = steady_now;
    timeout = std::min(timeout, left);
  }
  return timeout;
}

// A wait has ended with an error, which may be any peer's. Where a wake covers it up, the
// next wait ends with it again.
void DelayedTransport::FindLost(const absl::Status& error) {
  bool found = false;
  for (const Interest& interest : interests_) {
    if (interest.send == SendInterest::kNone) continue;
    const absl::Status lost = transport_->Wait({&interest, 1}, absl::ZeroDuration());
    if (lost.ok() || absl::IsDeadlineExceeded(lost)) continue;
    MutexLock lock(&mutex_);
    LoseLocked(lines_.at(interest.peer), lost);
    found = true;
  }
  if (found || !absl::IsInternal(error)) return;
  // No peer's: the system's.
  MutexLock lock(&mutex_);
  for (auto& [peer, line] : lines_) {
    if (line.ended.ok()) line.ended = error;
    LoseLocked(line, error);
  }
}

void DelayedTransport::LoseLocked(Line& line, const absl::Status& why) {
  if (line.lost.ok()) line.lost = why;
  line.out.Clear();
  changed_.NotifyAll();
}

void DelayedTransport::WakeThreadLocked() {
  changed_.NotifyAll();
  if (wakes_ == -absl::InfiniteDuration()) return;  // It will look before it waits.
  wakes_ = -absl::InfiniteDuration();
  transport_->Wake();
}

}  // namespace psring
