#include "worker/grpc_parameter_channel.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <memory_resource>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/grpc_message.h"
#include "common/grpc_status.h"
#include "common/mutex.h"
#include "common/pooled_allocator.h"
#include "common/tcp_socket.h"
#include "common/wire_message.h"
#include "common/wire_protocol.h"
#include "glog/logging.h"
#include "grpcpp/grpcpp.h"
#include "proto/parameter_server.pb.h"
#include "worker/channel_request.h"
#include "worker/pins.h"
#include "worker/socket_call.h"
#include "worker/tcp_connector.h"

namespace psring {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

// Slots are far smaller (common/slot_plan.h): what exceeds this is not one of ours.
constexpr int64_t kMaxPayloadBytes = 256 << 20;
// How long gRPC may take to let go of memory once its connection is closed. No network
// is involved.
constexpr absl::Duration kReleaseLimit = absl::Seconds(30);
// How soon to look again where an answer has come before gRPC has let go of the gradient
// that it answers.
constexpr absl::Duration kReleasePoll = absl::Milliseconds(1);

using RequestPtr = std::shared_ptr<ChannelRequest>;

// The thread connects, starts the call and runs until the connection has been closed. One
// thread at a time drives the call: it alone takes events. That is the thread, while
// there is something to wait for, or a caller that awaits its own requests: each thread
// that an answer does not have to wake saves the latency of a wake-up. Only the start of
// a write may be any thread's.
//
// The end is always the same, whatever the cause: the connection is shut down, so that
// all operations of the call come back, gRPC lets go of the gradients, and then the
// requests that are left are done with the error.
class GrpcParameterChannel final : public ParameterChannel {
 public:
  explicit GrpcParameterChannel(GrpcParameterChannelOptions options)
      : options_(std::move(options)),
        server_(absl::StrCat("server ", options_.server, " (", options_.address, ")")),
        connector_(options_.address),
        thread_([this] { Run(); }) {}

  ~GrpcParameterChannel() override {
    Abort(absl::CancelledError("the channel has ended"));
    thread_.join();
  }

  void Initialize(const Slot& slot, std::span<const float> parameters,
                  Done done) override {
    Start(ChannelRequest::Initialize(slot, parameters, std::move(done)));
  }

  void Pull(const Slot& slot, int64_t step, std::span<float> parameters,
            PullDone done) override {
    Start(ChannelRequest::Pull(slot, step, parameters, std::move(done)));
  }

  void Exchange(const Slot& slot, int64_t step, int64_t version, Bytes gradient,
                std::span<float> parameters, PullDone done) override {
    Start(ChannelRequest::Exchange(slot, step, version, gradient, parameters,
                                   std::move(done)));
  }

  void Snapshot(const Slot& slot, int64_t step, std::span<float> parameters,
                SnapshotDone done) override {
    Start(ChannelRequest::Snapshot(slot, step, parameters, std::move(done)));
  }

  void Leave(Done done) override { Start(ChannelRequest::Leave(std::move(done))); }

  void Lend() override {
    MutexLock lock(&mutex_);
    lent_ = true;
  }

  void Drive(absl::FunctionRef<bool()> done) override {
    {
      MutexLock lock(&mutex_);
      lent_ = false;
      if (driven_) return;
      driven_ = true;
    }
    while (AwaitsAnswer() && !done()) AwaitEvent();
    MutexLock lock(&mutex_);
    driven_ = false;
    if (NeededLocked()) changed_.NotifyOne();
  }

  void Abort(const absl::Status& reason) override {
    CHECK(!reason.ok());
    MutexLock lock(&mutex_);
    if (!aborted_.ok()) return;
    aborted_ = reason;
    CloseLocked();
  }

 private:
  using Operation = SocketCall::Operation;
  // The pin covers the request's memory from its start until gRPC is done with it.
  struct Unsent {
    RequestPtr request;
    std::shared_ptr<const void> pin;
  };

  void Start(ChannelRequest made) {
    const RequestPtr request = std::allocate_shared<ChannelRequest>(
        PooledAllocator<ChannelRequest>(request_memory_), std::move(made));
    if (static_cast<int64_t>(request->payload.size()) > kMaxPayloadBytes) {
      request->outcome = absl::InvalidArgumentError(absl::StrCat(
          server_, ": ", request->What(), ": ", request->payload.size(),
          " bytes do not fit into one message of at most ", kMaxPayloadBytes));
      request->Finish();
      return;
    }
    absl::Status error;
    std::optional<Unsent> next;
    {
      MutexLock lock(&mutex_);
      error = ErrorLocked(*request);
      if (error.ok()) {
        const uint64_t id = ++last_id_;
        request->header.set_id(id);
        request->deadline = SteadyDeadline(options_.stall_timeout);
        requests_[id] = request;
        unsent_.push_back({request, pins_->Pin(id)});
        next = NextUnsentLocked();
        if (!driven_ && NeededLocked()) changed_.NotifyOne();
      }
    }
    if (!error.ok()) {
      request->outcome = error;
      request->Finish();
    }
    Write(std::move(next));
  }

  // Takes the next request if it is time to write one: the caller then calls Write,
  // unlocked, because a write may take as long as the kernel takes to copy.
  std::optional<Unsent> NextUnsentLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!started_ || writing_ || closing_ || unsent_.empty()) return std::nullopt;
    writing_ = true;
    Unsent next = std::move(unsent_.front());
    unsent_.pop_front();
    return next;
  }

  void Write(std::optional<Unsent> next) {
    if (!next.has_value()) return;
    call_.Write(
        MakeMessage(next->request->header, next->request->payload, std::move(next->pin)));
  }

  void Run() {
    if (Connect()) {
      do {
        AwaitEvent();
      } while (AwaitTurn());
    }
    CloseConnection();
    FinishReleased();
    std::vector<RequestPtr> left;
    {
      MutexLock lock(&mutex_);
      for (const auto& [id, request] : requests_) {
        request->outcome = ErrorLocked(*request);
        left.push_back(request);
      }
      requests_.clear();
    }
    for (const RequestPtr& request : left) request->Finish();
  }

  // Until the call needs the thread. False: it has ended.
  bool AwaitTurn() {
    MutexLock lock(&mutex_);
    driven_ = false;
    while (driven_ || !NeededLocked()) changed_.Wait(&mutex_);
    driven_ = true;
    return !finished_;
  }

  // Of the driver: whether an event is to come that some request is done with.
  bool AwaitsAnswer() {
    MutexLock lock(&mutex_);
    if (closing_) return !finished_;
    return !requests_.empty() || !unreleased_.empty();
  }

  // Whether the call, which nobody drives, has to be driven by the thread. While it is
  // lent, only to send what waits for a write before it: others may wait for that. A
  // connection that is lost while nobody wants anything of it is found lost by the next
  // request.
  bool NeededLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (closing_) return true;
    const bool idle = started_ && !writing_ && requests_.empty() && unreleased_.empty();
    return lent_ ? !unsent_.empty() : !idle;
  }

  // Starts the call on a new connection. False: the channel ends without one.
  bool Connect() {
    while (true) {
      absl::StatusOr<FileDescriptor> socket = connector_.Connect(NextDeadline());
      if (socket.ok()) {
        StartCall(*std::move(socket));
        return true;
      }
      if (!absl::IsDeadlineExceeded(socket.status())) {
        Lose(socket.status());
        return false;
      }
      CheckStall(socket.status());
      MutexLock lock(&mutex_);
      if (closing_) return false;
    }
  }

  void StartCall(FileDescriptor socket) {
    SocketCall::Options options;
    options.address = options_.address;
    options.max_message_bytes = kMaxPayloadBytes + kMaxHeaderBytes;
    options.hello.set_protocol_version(kWireProtocolVersion);
    options.hello.set_job(options_.job);
    options.hello.set_rank(options_.rank);
    options.hello.set_incarnation(options_.incarnation);
    options.hello.set_fingerprint(options_.fingerprint);
    call_.Start(std::move(socket), options);
  }

  void AwaitEvent() {
    if (const std::optional<SocketCall::Event> event = call_.Next(NextDeadline())) {
      OnEvent(event->operation, event->ok);
    } else {
      CheckStall(absl::OkStatus());
    }
    FinishReleased();
    FinishCall();
  }

  // When there is something to do without an event. All requests have the same patience,
  // so none that starts from now on is due before the oldest that is there, or before
  // that time from now.
  SteadyTime NextDeadline() {
    if (!unreleased_.empty()) return SteadyDeadline(kReleasePoll);
    MutexLock lock(&mutex_);
    // Once it closes, all operations come back.
    if (closing_) return SteadyDeadline(absl::InfiniteDuration());
    return requests_.empty() ? SteadyDeadline(options_.stall_timeout)
                             : requests_.begin()->second->deadline;
  }

  void OnEvent(Operation operation, bool ok) {
    switch (operation) {
      case Operation::kStart:
        starting_ = false;
        if (ok) Read();
        break;
      case Operation::kRead:
        reading_ = false;
        if (!ok) return;
        TakeAnswer();
        Read();
        return;
      case Operation::kWrite:
        break;
      case Operation::kFinish:
        finished_ = true;
        Lose(StreamError());
        return;
    }
    std::optional<Unsent> next;
    {
      MutexLock lock(&mutex_);
      if (operation == Operation::kStart) started_ = true;
      if (operation == Operation::kWrite) writing_ = false;
      if (!ok) closing_ = true;
      next = NextUnsentLocked();
    }
    Write(std::move(next));
  }

  void Read() {
    reading_ = true;
    call_.Read(&incoming_);
  }

  void TakeAnswer() {
    ParameterAnswer answer;
    absl::StatusOr<ReceivedPayload> payload = TakeMessage(&incoming_, &answer);
    if (!payload.ok()) {
      Lose(payload.status());
      return;
    }
    const absl::StatusOr<FloatPieces> floats = FloatsOf(std::move(payload->pieces));
    if (!floats.ok()) {
      Lose(floats.status());
      return;
    }
    RequestPtr request;
    {
      MutexLock lock(&mutex_);
      if (closing_) return;  // Its request ends with the others.
      const auto found = requests_.find(answer.id());
      if (found != requests_.end()) {
        request = std::move(found->second);
        requests_.erase(found);
      }
    }
    if (request == nullptr) {
      Lose(absl::InternalError(
          absl::StrCat("it answers request ", answer.id(), ", which is not in flight")));
      return;
    }
    request->TakeAnswer(std::move(answer), *floats, server_);
    if (pins_->Holds(request->header.id())) {
      unreleased_.push_back(std::move(request));
    } else {
      request->Finish();
    }
  }

  void FinishReleased() {
    std::erase_if(unreleased_, [this](const RequestPtr& request) {
      if (pins_->Holds(request->header.id())) return false;
      request->Finish();
      return true;
    });
  }

  // Gives up if a request has waited for too long; `cause` says more where it is known.
  void CheckStall(const absl::Status& cause) {
    RequestPtr stalled;
    const std::string patience =
        absl::StrCat("no answer within ", absl::FormatDuration(options_.stall_timeout),
                     cause.ok() ? "" : ": ", cause.message());
    {
      MutexLock lock(&mutex_);
      if (closing_ || requests_.empty()) return;
      stalled = requests_.begin()->second;
      if (std::chrono::steady_clock::now() < stalled->deadline) return;
      requests_.erase(requests_.begin());
    }
    stalled->outcome =
        PeerLostError(absl::StrCat(server_, ": ", stalled->What(), ": ", patience));
    unreleased_.push_back(stalled);
    Lose(PeerLostError(absl::StrCat(stalled->What(), " had ", patience)));
  }

  // Keeps why the stream has ended or is to end; the first reason counts.
  void Lose(const absl::Status& reason) {
    MutexLock lock(&mutex_);
    if (lost_.ok()) lost_ = reason;
    CloseLocked();
  }

  void CloseLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    closing_ = true;
    unsent_.clear();
    connector_.Stop();
    call_.ShutDown();
    changed_.NotifyOne();
  }

  // When no operation is left that could come back.
  void FinishCall() {
    {
      MutexLock lock(&mutex_);
      if (starting_ || reading_ || writing_ || finishing_) return;
      closing_ = true;
    }
    finishing_ = true;
    call_.Finish(&status_);
  }

  absl::Status StreamError() const {
    if (status_.ok()) return PeerLostError("the server has ended the stream");
    // Without details the error is gRPC's own, not the server's answer.
    if (status_.error_code() == grpc::StatusCode::CANCELLED &&
        status_.error_details().empty()) {
      return PeerLostError("the server has dropped the stream");
    }
    return FromGrpc(status_);
  }

  void CloseConnection() {
    call_.Release();
    CHECK(pins_->AwaitNone(kReleaseLimit))
        << "gRPC holds gradients of a closed connection to " << server_;
  }

  // What a request is done with that has no answer; OK while the channel works.
  absl::Status ErrorLocked(const ChannelRequest& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!aborted_.ok()) return aborted_;
    if (lost_.ok()) return absl::OkStatus();
    return Annotate(lost_, absl::StrCat(server_, ": ", request.What()));
  }

  const GrpcParameterChannelOptions options_;
  const std::string server_;  // For errors.
  const std::shared_ptr<Pins> pins_ = std::make_shared<Pins>();

  const PooledAllocator<ChannelRequest>::Pool request_memory_ =
      PooledAllocator<ChannelRequest>::NewPool();

  TcpConnector connector_;

  SocketCall call_;  // The driver's; others write once it has started.

  // The driver's.
  grpc::ByteBuffer incoming_;
  grpc::Status status_;
  bool starting_ = true;
  bool reading_ = false;
  bool finishing_ = false;
  bool finished_ = false;
  // Their outcome is known, but their memory is still to be let go of.
  std::vector<RequestPtr> unreleased_;

  Mutex mutex_;
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);  // OK until aborted.
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);     // OK until the stream is lost.
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;  // Nothing more is written.
  bool driven_ ABSL_GUARDED_BY(mutex_) = true;    // At first by the thread.
  bool lent_ ABSL_GUARDED_BY(mutex_) = false;     // A caller is about to drive.
  CondVar changed_;                               // The thread may be needed.
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::pmr::unsynchronized_pool_resource memory_ ABSL_GUARDED_BY(mutex_);
  std::pmr::map<uint64_t, RequestPtr> requests_  // Unanswered.
      ABSL_GUARDED_BY(mutex_){&memory_};
  std::pmr::deque<Unsent> unsent_ ABSL_GUARDED_BY(mutex_){&memory_};  // Of these.

  std::thread thread_;
};

}  // namespace

std::unique_ptr<ParameterChannel> NewGrpcParameterChannel(
    GrpcParameterChannelOptions options) {
  return std::make_unique<GrpcParameterChannel>(std::move(options));
}

}  // namespace psring
