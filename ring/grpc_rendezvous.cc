#include "ring/grpc_rendezvous.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/errors.h"
#include "common/grpc_status.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace psring {
namespace {

// How long a peer may take to receive what was sent before this rank left.
constexpr absl::Duration kLingerLimit = absl::Seconds(2);

}  // namespace

GrpcServerListener::GrpcServerListener(absl::string_view host, int port) {
  const bool v6 = absl::StrContains(host, ':') && !absl::StartsWith(host, "[");
  const std::string name = host.empty() ? "[::]"
                           : v6         ? absl::StrCat("[", host, "]")
                                        : std::string(host);
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort(absl::StrCat(name, ":", port),
                           grpc::InsecureServerCredentials(), &port_);
  builder.RegisterAsyncGenericService(&service_);
  queue_ = builder.AddCompletionQueue();
  server_ = builder.BuildAndStart();
}

GrpcServerListener::~GrpcServerListener() {
  Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) delete static_cast<GrpcLane::Event*>(tag);
}

void GrpcServerListener::Shutdown() {
  if (std::exchange(shut_down_, true)) return;
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  queue_->Shutdown();
}

GrpcLanes::GrpcLanes(std::unique_ptr<GrpcServerListener> listener, const RingMember& self,
                     const std::vector<PeerAddress>& peers)
    : listener_(std::move(listener)), self_(self) {
  for (const PeerAddress& peer : peers) {
    const bool calls = peer.rank > self.rank;
    PeerLanes& link = links_.emplace_back();
    link.peer = peer.rank;
    link.calls = calls;
    link.name = absl::StrCat("worker ", peer.rank);
    if (calls) absl::StrAppend(&link.name, " (", peer.listens_at, ")");
    link.lanes.resize(self.lanes);
  }
  thread_ = std::thread([this] { ServeEvents(); });
  AwaitCall();
  for (size_t i = 0; i < peers.size(); ++i) {
    if (links_[i].calls) Call(links_[i], peers[i].listens_at);
  }
}

GrpcLanes::~GrpcLanes() {
  std::vector<GrpcLanePtr> refused;
  {
    MutexLock lock(&monitor_.mutex);
    refused = misfit_lanes_;
  }
  AwaitOver(refused, kLingerLimit);
  const std::vector<GrpcLanePtr> lanes = All();
  for (const GrpcLanePtr& lane : lanes) lane->Leave();
  if (!AwaitOver(lanes, connected_ ? kLingerLimit : absl::ZeroDuration())) {
    for (const GrpcLanePtr& lane : lanes) lane->Cancel();
    CHECK(AwaitOver(lanes, absl::InfiniteDuration()));
  }
  {
    MutexLock lock(&monitor_.mutex);
    monitor_.closing = true;
  }
  listener_->Shutdown();
  thread_.join();
}

absl::Status GrpcLanes::Connect(absl::Duration timeout) {
  const auto deadline = SteadyDeadline(timeout);
  MutexLock lock(&monitor_.mutex);
  for (bool timed_out = false;;) {
    RETURN_IF_ERROR(misfit_);
    bool all = true;
    for (PeerLanes& link : links_) {
      for (int c = kControlConnection; c < self_.lanes; ++c) {
        GrpcLanePtr& lane = link.At(c);
        if (lane == nullptr || !lane->open_locked()) {
          all = false;
          if (lane == nullptr || !lane->over_locked()) continue;
          if (!link.calls) {
            lane.reset();  // The caller gave up on this call; it may call again.
            continue;
          }
          return Annotate(LossOfLocked(link), link.name);
        }
        if (!link.calls) continue;
        const absl::Status judgement =
            JudgeHandshake(*lane->answer_locked(), self_, link.peer);
        if (!judgement.ok()) {
          return absl::FailedPreconditionError(
              absl::StrCat(link.name, ": ", judgement.message()));
        }
      }
    }
    connected_ = all;
    if (all) return absl::OkStatus();
    if (timed_out) return TimeoutErrorLocked();
    timed_out = monitor_.changed.WaitUntil(&monitor_.mutex, deadline);
  }
}

void GrpcLanes::ServeEvents() {
  void* tag = nullptr;
  bool ok = false;
  while (listener_->queue()->Next(&tag, &ok)) {
    const std::unique_ptr<GrpcLane::Event> event(static_cast<GrpcLane::Event*>(tag));
    (*event)(ok);
  }
}

void GrpcLanes::Call(PeerLanes& link, const std::string& address) {
  for (int c = kControlConnection; c < self_.lanes; ++c) {
    grpc::ChannelArguments arguments;
    // A connection of its own.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    // A frozen moment of a peer is not to cost it seconds.
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
    const GrpcLanePtr lane = std::make_shared<GrpcLane>(&monitor_, listener_->queue());
    link.At(c) = lane;
    lane->Call(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments),
        MakeHandshake(self_, link.peer, c, HandshakeVerdict::kAsking));
  }
}

void GrpcLanes::AwaitCall() {
  const GrpcLanePtr lane = std::make_shared<GrpcLane>(&monitor_, listener_->queue());
  lane->Await(listener_->service(), listener_->queue(),
              [this, lane = lane.get()](bool ok) {
                if (!ok) return;
                Answer(lane->shared_from_this());
                AwaitCall();
              });
}

void GrpcLanes::Answer(const GrpcLanePtr& lane) {
  const std::optional<Handshake> theirs = lane->TheirHandshake();
  absl::Status judgement = absl::NotFoundError("not a psring call");
  PeerLanes* link = nullptr;
  if (theirs.has_value()) {
    const auto found = std::ranges::find_if(links_, [&](const PeerLanes& candidate) {
      return !candidate.calls && candidate.peer == theirs->sender;
    });
    link = found == links_.end() ? nullptr : &*found;
    judgement = JudgeHandshake(*theirs, self_, link == nullptr ? -1 : link->peer);
    // Listeners answer on the caller's call.
    if (judgement.ok() && theirs->connection >= self_.lanes) {
      judgement = absl::NotFoundError("no such lane");
    }
  }
  if (!judgement.ok()) {
    LOG(WARNING) << "worker " << self_.rank << " of job '" << self_.job << "' at port "
                 << listener_->port() << ": call refused: " << judgement.message();
    if (absl::IsFailedPrecondition(judgement)) {
      MutexLock lock(&monitor_.mutex);
      misfit_ = judgement;
      misfit_lanes_.push_back(lane);
      monitor_.changed.NotifyAll();
    }
    lane->Refuse(absl::FailedPreconditionError(judgement.message()));
    return;
  }
  // A peer that calls again had no answer the first time: the last call counts.
  {
    MutexLock lock(&monitor_.mutex);
    if (connected_) judgement = absl::FailedPreconditionError("already connected");
    if (judgement.ok()) link->At(theirs->connection) = lane;
  }
  if (!judgement.ok()) {
    lane->Refuse(judgement);
    return;
  }
  lane->Accept(
      MakeHandshake(self_, link->peer, theirs->connection, HandshakeVerdict::kWelcome));
}

std::vector<GrpcLanePtr> GrpcLanes::All() {
  MutexLock lock(&monitor_.mutex);
  std::vector<GrpcLanePtr> lanes;
  for (PeerLanes& link : links_) {
    for (int c = kControlConnection; c < self_.lanes; ++c) {
      if (link.At(c) != nullptr) lanes.push_back(link.At(c));
    }
  }
  return lanes;
}

bool GrpcLanes::AwaitOver(const std::vector<GrpcLanePtr>& lanes, absl::Duration limit) {
  const auto deadline = SteadyDeadline(limit);
  MutexLock lock(&monitor_.mutex);
  for (bool timed_out = false;;) {
    if (std::ranges::all_of(lanes, &GrpcLane::over_locked)) return true;
    if (timed_out) return false;
    timed_out = monitor_.changed.WaitUntil(&monitor_.mutex, deadline);
  }
}

// Why a called peer is lost, once a call to it is over. A peer that refuses one call and
// leaves cuts the others off, so a refusal counts before a cut, and is waited for.
absl::Status GrpcLanes::LossOfLocked(const PeerLanes& link) {
  std::vector<GrpcLanePtr> lanes = link.lanes;
  lanes.push_back(link.control);
  const auto refused = [](const GrpcLanePtr& lane) {
    return lane->over_locked() &&
           lane->status_locked().error_code() == grpc::StatusCode::FAILED_PRECONDITION;
  };
  const auto deadline = SteadyDeadline(kLingerLimit);
  for (bool timed_out = false;;) {
    if (const auto found = std::ranges::find_if(lanes, refused); found != lanes.end()) {
      return FromGrpc((*found)->status_locked());
    }
    if (timed_out || std::ranges::all_of(lanes, &GrpcLane::over_locked)) break;
    timed_out = monitor_.changed.WaitUntil(&monitor_.mutex, deadline);
  }
  return FromGrpc(
      (*std::ranges::find_if(lanes, &GrpcLane::over_locked))->status_locked());
}

absl::Status GrpcLanes::TimeoutErrorLocked() {
  std::vector<std::string> missing;
  for (PeerLanes& link : links_) {
    for (int c = kControlConnection; c < self_.lanes; ++c) {
      const GrpcLanePtr& lane = link.At(c);
      if (lane != nullptr && lane->open_locked()) continue;
      missing.push_back(absl::StrCat(
          link.name, link.calls
                         ? " could not be reached"
                         : absl::StrCat(" never called port ", listener_->port())));
      break;
    }
  }
  return RendezvousTimeoutError(absl::StrCat("job '", self_.job, "', worker ", self_.rank,
                                             " of ", self_.ranks, ": ",
                                             absl::StrJoin(missing, "; ")));
}

}  // namespace psring
