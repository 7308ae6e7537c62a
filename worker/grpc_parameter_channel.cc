#include "worker/grpc_parameter_channel.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <limits>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/errors.h"
#include "common/grpc_status.h"
#include "common/mutex.h"
#include "glog/logging.h"
#include "grpcpp/grpcpp.h"
#include "proto/parameter_server.grpc.pb.h"
#include "proto/parameter_server.pb.h"

namespace psring {
namespace {

static_assert(std::endian::native == std::endian::little,
              "payloads are copied, not converted");

// A protobuf message cannot be longer; the rest is for the other fields.
constexpr size_t kMaxPayloadBytes = std::numeric_limits<int32_t>::max() - 4096;

// gRPC never sees the caller's spans: payloads are copied into the request before it is
// sent, and out of the answer before the request is done. So a call that gRPC still
// winds up after an error or a cancellation touches none of them.
class GrpcParameterChannel final : public ParameterChannel {
 public:
  explicit GrpcParameterChannel(GrpcParameterChannelOptions options)
      : options_(std::move(options)),
        stub_(ParameterService::NewStub(Connect(options_.address))) {}

  ~GrpcParameterChannel() override {
    Abort(absl::CancelledError("the channel has ended"));
    MutexLock lock(&mutex_);
    while (running_ > 0) idle_.Wait(&mutex_);  // Cancelled calls end at once.
  }

  void Initialize(const Slot& slot, std::span<const float> parameters,
                  Done done) override {
    auto* const call = new Call<InitializeRequest, InitializeResponse>;
    call->what = absl::StrCat("the initialization of slot ", slot.index);
    call->request.set_job(options_.job);
    call->request.set_slot(slot.index);
    call->done = std::move(done);
    StartWithPayload(call, &ParameterService::Stub::async::Initialize, parameters);
  }

  void Push(const Slot& slot, int64_t step, std::span<const float> gradient,
            Done done) override {
    auto* const call = new Call<PushRequest, PushResponse>;
    call->what = absl::StrCat("the push of slot ", slot.index, ", step ", step);
    call->request.set_job(options_.job);
    call->request.set_rank(options_.rank);
    call->request.set_step(step);
    call->request.set_slot(slot.index);
    call->done = std::move(done);
    StartWithPayload(call, &ParameterService::Stub::async::Push, gradient);
  }

  void Pull(const Slot& slot, int64_t step, std::span<float> parameters,
            PullDone done) override {
    auto* const call = new Call<PullRequest, PullResponse>;
    call->what = absl::StrCat("the pull of slot ", slot.index, " for step ", step);
    call->request.set_job(options_.job);
    call->request.set_rank(options_.rank);
    call->request.set_step(step);
    call->request.set_slot(slot.index);
    call->done = [this, call, parameters, done = std::move(done)](absl::Status status) {
      const std::string& payload = call->response.payload();
      if (status.ok() && payload.size() != parameters.size_bytes()) {
        status = absl::InternalError(
            absl::StrCat(Server(), ": ", call->what, ": the answer has ", payload.size(),
                         " bytes, the slot has ", parameters.size_bytes(), " here"));
      }
      if (!status.ok()) {
        done(status);
        return;
      }
      std::memcpy(parameters.data(), payload.data(), payload.size());
      done(call->response.version());
    };
    Start(call, &ParameterService::Stub::async::Pull);
  }

  void Abort(const absl::Status& reason) override {
    CHECK(!reason.ok());
    MutexLock lock(&mutex_);
    if (!aborted_.ok()) return;
    aborted_ = reason;
    for (grpc::ClientContext* const context : contexts_) context->TryCancel();
  }

 private:
  template <typename Request, typename Response>
  struct Call {
    std::string what;  // "the push of ...", for errors.
    grpc::ClientContext context;
    Request request;
    Response response;
    Done done;
  };
  template <typename Request, typename Response>
  using Method = void (ParameterService::Stub::async::*)(
      grpc::ClientContext*, const Request*, Response*, std::function<void(grpc::Status)>);

  static std::shared_ptr<grpc::Channel> Connect(const std::string& address) {
    grpc::ChannelArguments arguments;
    // A slot's size is the plan's business, not the transport's.
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    // What is lost is reported, not repeated unseen.
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    // Workers of one process would otherwise share a connection.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                     arguments);
  }

  std::string Server() const {
    return absl::StrCat("server ", options_.server, " (", options_.address, ")");
  }

  template <typename Request, typename Response>
  void StartWithPayload(Call<Request, Response>* call, Method<Request, Response> method,
                        std::span<const float> payload) {
    if (payload.size_bytes() > kMaxPayloadBytes) {
      call->done(absl::InvalidArgumentError(
          absl::StrCat(Server(), ": ", call->what, ": ", payload.size_bytes(),
                       " bytes do not fit into one message of at most ", kMaxPayloadBytes,
                       "; more servers make smaller slots")));
      delete call;
      return;
    }
    call->request.set_payload(payload.data(), payload.size_bytes());
    Start(call, method);
  }

  // Takes the call over; it ends in Finish, or here if the channel is aborted.
  template <typename Request, typename Response>
  void Start(Call<Request, Response>* call, Method<Request, Response> method) {
    call->context.set_deadline(std::chrono::system_clock::now() +
                               absl::ToChronoMicroseconds(std::min(
                                   options_.stall_timeout, absl::Hours(24 * 365))));
    absl::Status aborted;
    {
      MutexLock lock(&mutex_);
      aborted = aborted_;
      if (aborted.ok()) {
        call->context.set_wait_for_ready(!connected_);
        contexts_.insert(&call->context);
        ++running_;
      }
    }
    if (!aborted.ok()) {
      call->done(aborted);
      delete call;
      return;
    }
    (stub_->async()->*method)(
        &call->context, &call->request, &call->response,
        [this, call](const grpc::Status& status) { Finish(call, status); });
  }

  template <typename Request, typename Response>
  void Finish(Call<Request, Response>* call, const grpc::Status& status) {
    absl::Status aborted;
    {
      MutexLock lock(&mutex_);
      contexts_.erase(&call->context);
      connected_ = connected_ || status.ok();
      aborted = aborted_;
    }
    call->done(ToError(status, aborted, call->what));
    delete call;
    // The last thing that touches the channel.
    MutexLock lock(&mutex_);
    if (--running_ == 0) idle_.NotifyAll();
  }

  absl::Status ToError(const grpc::Status& status, const absl::Status& aborted,
                       absl::string_view what) const {
    if (status.ok()) return absl::OkStatus();
    if (!aborted.ok()) return aborted;
    const std::string context = absl::StrCat(Server(), ": ", what);
    // Without details the error is gRPC's own, not the server's answer.
    if (status.error_details().empty()) {
      if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
        return PeerLostError(absl::StrCat(context, ": no answer within ",
                                          absl::FormatDuration(options_.stall_timeout)));
      }
      if (status.error_code() == grpc::StatusCode::CANCELLED) {
        return PeerLostError(absl::StrCat(context, ": the server dropped the call"));
      }
    }
    return Annotate(FromGrpc(status), context);
  }

  const GrpcParameterChannelOptions options_;
  const std::unique_ptr<ParameterService::Stub> stub_;

  Mutex mutex_;
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);    // OK until aborted.
  bool connected_ ABSL_GUARDED_BY(mutex_) = false;  // A request has succeeded.
  std::unordered_set<grpc::ClientContext*> contexts_ ABSL_GUARDED_BY(mutex_);
  int64_t running_ ABSL_GUARDED_BY(mutex_) = 0;  // Calls whose Finish has not ended.
  CondVar idle_;
};

}  // namespace

std::unique_ptr<ParameterChannel> NewGrpcParameterChannel(
    GrpcParameterChannelOptions options) {
  return std::make_unique<GrpcParameterChannel>(std::move(options));
}

}  // namespace psring
