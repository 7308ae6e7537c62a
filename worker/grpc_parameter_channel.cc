#include "worker/grpc_parameter_channel.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/grpc_message.h"
#include "common/grpc_status.h"
#include "common/mutex.h"
#include "common/wire_message.h"
#include "common/wire_protocol.h"
#include "glog/logging.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "proto/parameter_server.pb.h"
#include "worker/pins.h"

namespace psring {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

constexpr char kMethod[] = "/psring.ParameterService/Exchange";
// Slots are far smaller (common/slot_plan.h): what exceeds this is not one of ours.
constexpr int64_t kMaxPayloadBytes = 256 << 20;
// How long gRPC may take to let go of memory once its connection is closed. No network
// is involved.
constexpr absl::Duration kReleaseLimit = absl::Seconds(30);
// How soon to look again where an answer has come before gRPC has let go of the gradient
// that it answers.
constexpr absl::Duration kReleasePoll = absl::Milliseconds(1);

struct Request {
  std::string what;  // "the push of ...", for errors.
  ParameterRequest header;
  std::span<const float> payload;  // To be sent.
  std::span<float> parameters;     // Where the answer goes.
  SteadyTime deadline;
  ParameterChannel::PullDone done;
  absl::StatusOr<int64_t> outcome = 0;  // A pull's version.
};
using RequestPtr = std::shared_ptr<Request>;

// The thread runs from the start of the call to the end of the connection, and all events
// of the call are its own; only the start of a write may be any thread's. The end is
// always the same, whatever the cause: the call is cancelled where it has not ended by
// itself, its operations come back, the connection is closed, gRPC lets go of the
// gradients, and then the requests that are left are done with the error.
class GrpcParameterChannel final : public ParameterChannel {
 public:
  explicit GrpcParameterChannel(GrpcParameterChannelOptions options)
      : options_(std::move(options)),
        server_(absl::StrCat("server ", options_.server, " (", options_.address, ")")),
        channel_(Connect(options_.address)),
        context_(std::make_unique<grpc::ClientContext>()) {
    WorkerHello hello;
    hello.set_protocol_version(kWireProtocolVersion);
    hello.set_job(options_.job);
    hello.set_rank(options_.rank);
    hello.set_incarnation(options_.incarnation);
    hello.set_fingerprint(options_.fingerprint);
    context_->AddMetadata(kHelloMetadata, hello.SerializeAsString());
    context_->set_wait_for_ready(true);
    stream_ = grpc::GenericStub(channel_).PrepareCall(context_.get(), kMethod, &queue_);
    stream_->StartCall(Tag(Operation::kStart));
    thread_ = std::thread([this] { Run(); });
  }

  ~GrpcParameterChannel() override {
    Abort(absl::CancelledError("the channel has ended"));
    thread_.join();
  }

  void Initialize(const Slot& slot, std::span<const float> parameters,
                  Done done) override {
    auto request = std::make_shared<Request>();
    request->what = absl::StrCat("the initialization of slot ", slot.index);
    request->header.set_operation(ParameterRequest::INITIALIZE);
    request->header.set_slot(slot.index);
    request->payload = parameters;
    request->done = [done = std::move(done)](const absl::StatusOr<int64_t>& outcome) {
      done(outcome.status());
    };
    Start(std::move(request));
  }

  void Push(const Slot& slot, int64_t step, std::span<const float> gradient,
            Done done) override {
    auto request = std::make_shared<Request>();
    request->what = absl::StrCat("the push of slot ", slot.index, ", step ", step);
    request->header.set_operation(ParameterRequest::PUSH);
    request->header.set_slot(slot.index);
    request->header.set_step(step);
    request->payload = gradient;
    request->done = [done = std::move(done)](const absl::StatusOr<int64_t>& outcome) {
      done(outcome.status());
    };
    Start(std::move(request));
  }

  void Pull(const Slot& slot, int64_t step, std::span<float> parameters,
            PullDone done) override {
    auto request = std::make_shared<Request>();
    request->what = absl::StrCat("the pull of slot ", slot.index, " for step ", step);
    request->header.set_operation(ParameterRequest::PULL);
    request->header.set_slot(slot.index);
    request->header.set_step(step);
    request->parameters = parameters;
    request->done = std::move(done);
    Start(std::move(request));
  }

  void Abort(const absl::Status& reason) override {
    CHECK(!reason.ok());
    MutexLock lock(&mutex_);
    if (!aborted_.ok()) return;
    aborted_ = reason;
    CancelLocked();
  }

 private:
  enum class Operation : intptr_t { kStart = 1, kRead, kWrite, kFinish };
  static void* Tag(Operation operation) { return reinterpret_cast<void*>(operation); }

  static std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMaxPayloadBytes + kMaxHeaderBytes);
    arguments.SetMaxSendMessageSize(kMaxPayloadBytes + kMaxHeaderBytes);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    // What is lost is reported, not repeated unseen.
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    // A connection of our own, which closes when we let go of it.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                     arguments);
  }

  void Start(RequestPtr request) {
    if (static_cast<int64_t>(request->payload.size_bytes()) > kMaxPayloadBytes) {
      request->done(absl::InvalidArgumentError(absl::StrCat(
          server_, ": ", request->what, ": ", request->payload.size_bytes(),
          " bytes do not fit into one message of at most ", kMaxPayloadBytes)));
      return;
    }
    absl::Status error;
    RequestPtr next;
    {
      MutexLock lock(&mutex_);
      error = ErrorLocked(*request);
      if (error.ok()) {
        const uint64_t id = ++last_id_;
        request->header.set_id(id);
        request->deadline = SteadyDeadline(options_.stall_timeout);
        requests_[id] = request;
        unsent_.push_back(request);
        next = NextUnsentLocked();
      }
    }
    if (!error.ok()) request->done(error);
    Write(next);
  }

  // Takes the next request if it is time to write one: the caller then calls Write,
  // unlocked, because a write may take as long as the kernel takes to copy.
  RequestPtr NextUnsentLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!started_ || writing_ || closing_ || unsent_.empty()) return nullptr;
    writing_ = true;
    RequestPtr next = std::move(unsent_.front());
    unsent_.pop_front();
    return next;
  }

  void Write(const RequestPtr& request) {
    if (request == nullptr) return;
    stream_->Write(
        MakeMessage(
            request->header, request->payload,
            request->payload.empty() ? nullptr : pins_->Pin(request->header.id())),
        Tag(Operation::kWrite));
  }

  void Run() {
    while (!finished_) {
      void* tag = nullptr;
      bool ok = false;
      switch (queue_.AsyncNext(&tag, &ok, NextDeadline())) {
        case grpc::CompletionQueue::GOT_EVENT:
          OnEvent(static_cast<Operation>(reinterpret_cast<intptr_t>(tag)), ok);
          break;
        case grpc::CompletionQueue::TIMEOUT:
          CheckStall();
          break;
        case grpc::CompletionQueue::SHUTDOWN:
          LOG(FATAL) << "the queue ended before its call";
      }
      FinishReleased();
      FinishCall();
    }
    CloseConnection();
    FinishReleased();
    std::map<uint64_t, RequestPtr> left;
    {
      MutexLock lock(&mutex_);
      left.swap(requests_);
      for (const auto& [id, request] : left) request->outcome = ErrorLocked(*request);
    }
    for (const auto& [id, request] : left) request->done(request->outcome);
  }

  // When there is something to do without an event. All requests have the same patience,
  // so none that starts from now on is due before the oldest that is there, or before
  // that time from now.
  gpr_timespec NextDeadline() {
    absl::Duration wait = absl::InfiniteDuration();
    if (!unreleased_.empty()) {
      wait = kReleasePoll;
    } else {
      MutexLock lock(&mutex_);
      if (closing_) {
        // All operations come back.
      } else if (requests_.empty()) {
        wait = options_.stall_timeout;
      } else {
        wait = absl::FromChrono(requests_.begin()->second->deadline -
                                std::chrono::steady_clock::now());
      }
    }
    if (wait == absl::InfiniteDuration()) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    return gpr_time_add(
        gpr_now(GPR_CLOCK_MONOTONIC),
        gpr_time_from_nanos(std::max<int64_t>(0, absl::ToInt64Nanoseconds(wait)),
                            GPR_TIMESPAN));
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
    RequestPtr next;
    {
      MutexLock lock(&mutex_);
      if (operation == Operation::kStart) started_ = true;
      if (operation == Operation::kWrite) writing_ = false;
      if (!ok) closing_ = true;
      next = NextUnsentLocked();
    }
    Write(next);
  }

  void Read() {
    reading_ = true;
    stream_->Read(&incoming_, Tag(Operation::kRead));
  }

  void TakeAnswer() {
    ParameterAnswer answer;
    const absl::StatusOr<ReceivedFloats> payload = TakeMessage(&incoming_, &answer);
    if (!payload.ok()) {
      Lose(payload.status());
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
    request->outcome = OutcomeOf(*request, answer, payload->floats);
    if (pins_->Holds(answer.id())) {
      unreleased_.push_back(std::move(request));
    } else {
      request->done(request->outcome);
    }
  }

  absl::StatusOr<int64_t> OutcomeOf(const Request& request, const ParameterAnswer& answer,
                                    const FloatPieces& floats) const {
    if (answer.has_failure()) {
      return Annotate(FromFailure(answer.failure()),
                      absl::StrCat(server_, ": ", request.what));
    }
    if (floats.count() != static_cast<int64_t>(request.parameters.size())) {
      return absl::InternalError(
          absl::StrCat(server_, ": ", request.what, ": the answer has ",
                       floats.count() * sizeof(float), " bytes, the slot has ",
                       request.parameters.size_bytes(), " here"));
    }
    floats.CopyTo(request.parameters);
    return answer.version();
  }

  void FinishReleased() {
    std::vector<RequestPtr> unreleased;
    unreleased.swap(unreleased_);
    for (RequestPtr& request : unreleased) {
      if (pins_->Holds(request->header.id())) {
        unreleased_.push_back(std::move(request));
      } else {
        request->done(request->outcome);
      }
    }
  }

  void CheckStall() {
    RequestPtr stalled;
    {
      MutexLock lock(&mutex_);
      if (closing_ || requests_.empty()) return;
      const RequestPtr& oldest = requests_.begin()->second;
      if (std::chrono::steady_clock::now() < oldest->deadline) return;
      stalled = oldest;
      stalled_ = stalled;
    }
    Lose(PeerLostError(absl::StrCat(stalled->what, " had no answer within ",
                                    absl::FormatDuration(options_.stall_timeout))));
  }

  // Keeps why the stream has ended or is to end; the first reason counts.
  void Lose(const absl::Status& reason) {
    MutexLock lock(&mutex_);
    if (lost_.ok()) lost_ = reason;
    CancelLocked();
  }

  void CancelLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    closing_ = true;
    unsent_.clear();
    if (context_ != nullptr) context_->TryCancel();
  }

  // When no operation is left that could come back.
  void FinishCall() {
    {
      MutexLock lock(&mutex_);
      if (starting_ || reading_ || writing_ || finishing_) return;
      closing_ = true;
    }
    finishing_ = true;
    stream_->Finish(&status_, Tag(Operation::kFinish));
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

  // A stream that is cancelled leaves what it had handed to a connection that does not
  // move; only with the connection that memory is free.
  void CloseConnection() {
    stream_.reset();
    {
      MutexLock lock(&mutex_);
      context_.reset();
    }
    channel_.reset();
    CHECK(pins_->AwaitNone(kReleaseLimit)) << "gRPC keeps gradients of a closed "
                                              "connection to "
                                           << server_;
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  // What a request is done with that has no answer; OK while the channel works.
  absl::Status ErrorLocked(const Request& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!aborted_.ok()) return aborted_;
    if (&request == stalled_.get()) {
      return PeerLostError(absl::StrCat(server_, ": ", request.what,
                                        ": no answer within ",
                                        absl::FormatDuration(options_.stall_timeout)));
    }
    return Annotate(lost_, absl::StrCat(server_, ": ", request.what));
  }

  const GrpcParameterChannelOptions options_;
  const std::string server_;  // For errors.
  const std::shared_ptr<Pins> pins_ = std::make_shared<Pins>();

  // The call. Set up in the constructor, used by whoever writes and by the thread.
  grpc::CompletionQueue queue_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;

  // The thread's.
  grpc::ByteBuffer incoming_;
  grpc::Status status_;
  bool starting_ = true;
  bool reading_ = false;
  bool finishing_ = false;
  bool finished_ = false;
  std::vector<RequestPtr> unreleased_;  // Answered, but gRPC still holds their memory.

  Mutex mutex_;
  std::unique_ptr<grpc::ClientContext> context_ ABSL_GUARDED_BY(mutex_);
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);  // OK until aborted.
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);     // OK until the stream is lost.
  RequestPtr stalled_ ABSL_GUARDED_BY(mutex_);    // Whose deadline has passed.
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;  // Nothing more is written.
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, RequestPtr> requests_ ABSL_GUARDED_BY(mutex_);  // Unanswered.
  std::deque<RequestPtr> unsent_ ABSL_GUARDED_BY(mutex_);            // Of these.

  std::thread thread_;
};

}  // namespace

std::unique_ptr<ParameterChannel> NewGrpcParameterChannel(
    GrpcParameterChannelOptions options) {
  return std::make_unique<GrpcParameterChannel>(std::move(options));
}

}  // namespace psring
