#include "server/parameter_service.h"

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/grpc_status.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "grpcpp/alarm.h"
#include "grpcpp/grpcpp.h"
#include "proto/parameter_server.grpc.pb.h"
#include "proto/parameter_server.pb.h"

namespace psring {
namespace {

static_assert(std::endian::native == std::endian::little,
              "payloads are copied, not converted");

// The payload as floats. A string's storage is aligned for any float: on the heap as
// every allocation, inside the string behind its pointer and its size.
absl::StatusOr<std::span<const float>> FloatsOf(const std::string& payload) {
  if (payload.size() % sizeof(float) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("the payload has ", payload.size(),
                                                   " bytes, which are no whole floats"));
  }
  CHECK_EQ(reinterpret_cast<uintptr_t>(payload.data()) % alignof(float), 0u);
  return std::span<const float>(reinterpret_cast<const float*>(payload.data()),
                                payload.size() / sizeof(float));
}

// A push's messages, made by us and not by gRPC, so that the payload can be taken out
// of the request and held until the round closes instead of being copied.
class PushMessages final : public grpc::MessageHolder<PushRequest, PushResponse> {
 public:
  PushMessages() {
    set_request(&request_);
    set_response(&response_);
  }
  void Release() override { delete this; }
  std::shared_ptr<const std::string> TakePayload() {
    return std::make_shared<const std::string>(std::move(*request_.mutable_payload()));
  }

 private:
  PushRequest request_;
  PushResponse response_;
};

class PushAllocator final : public grpc::MessageAllocator<PushRequest, PushResponse> {
 public:
  grpc::MessageHolder<PushRequest, PushResponse>* AllocateMessages() override {
    return new PushMessages;
  }
};

// One pull; lives until gRPC is done with the call.
class PullReactor final : public grpc::ServerUnaryReactor {
 public:
  PullReactor(std::shared_ptr<ParameterShard> shard, const PullInfo& pull,
              PullResponse* response, absl::Duration stall_timeout)
      : shard_(std::move(shard)) {
    // Until gRPC has this object it calls nothing of it, neither OnCancel nor OnDone,
    // even if the shard answers at once: so ticket_ needs no lock.
    ticket_ = shard_->Pull(
        pull,
        [response](const PullAnswer& answer) {
          response->set_version(answer.version);
          response->set_payload(answer.parameters.data(), answer.parameters.size_bytes());
        },
        [this](const absl::Status& status) { Finish(ToGrpc(status)); });
    if (!ticket_.parked()) return;
    // The alarm's callback may run after this object has gone.
    alarm_.emplace();
    alarm_->Set(SystemDeadline(stall_timeout),
                [shard = shard_, ticket = ticket_](bool expired) {
                  if (expired) shard->CancelPull(ticket);
                });
  }
  void OnCancel() override { shard_->CancelPull(ticket_); }
  void OnDone() override { delete this; }

 private:
  const std::shared_ptr<ParameterShard> shard_;
  PullTicket ticket_;
  std::optional<grpc::Alarm> alarm_;  // Set while parked.
};

class Service final : public ParameterService::CallbackService {
 public:
  Service(ParameterServerHost::Options options, std::shared_ptr<ParameterShard> shard)
      : options_(std::move(options)), shard_(std::move(shard)) {
    SetMessageAllocatorFor_Push(&push_allocator_);
  }

  grpc::ServerUnaryReactor* Initialize(grpc::CallbackServerContext* context,
                                       const InitializeRequest* request,
                                       InitializeResponse*) override {
    return Reply(context, [&]() -> absl::Status {
      RETURN_IF_ERROR(CheckJob(request->job()));
      ASSIGN_OR_RETURN(const auto parameters, FloatsOf(request->payload()));
      return shard_->Initialize(request->slot(), parameters);
    }());
  }

  grpc::ServerUnaryReactor* Push(grpc::CallbackServerContext* context,
                                 const PushRequest* request, PushResponse*) override {
    return Reply(context, [&]() -> absl::Status {
      RETURN_IF_ERROR(CheckJob(request->job()));
      const auto payload =
          static_cast<PushMessages*>(context->GetRpcAllocatorState())->TakePayload();
      ASSIGN_OR_RETURN(const auto gradient, FloatsOf(*payload));
      return shard_->Push(
          {.rank = request->rank(), .step = request->step(), .slot = request->slot()},
          {.gradient = gradient, .owner = payload});
    }());
  }

  grpc::ServerUnaryReactor* Pull(grpc::CallbackServerContext* context,
                                 const PullRequest* request,
                                 PullResponse* response) override {
    if (absl::Status status = CheckJob(request->job()); !status.ok()) {
      return Reply(context, status);
    }
    return new PullReactor(
        shard_,
        {.rank = request->rank(), .step = request->step(), .slot = request->slot()},
        response, options_.stall_timeout);
  }

 private:
  static grpc::ServerUnaryReactor* Reply(grpc::CallbackServerContext* context,
                                         const absl::Status& status) {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(ToGrpc(status));
    return reactor;
  }

  absl::Status CheckJob(const std::string& job) const {
    if (job == options_.job) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "this server is of job \"", options_.job, "\", the request of \"", job, "\""));
  }

  const ParameterServerHost::Options options_;
  const std::shared_ptr<ParameterShard> shard_;
  PushAllocator push_allocator_;
};

}  // namespace

class ParameterServerHost::Impl {
 public:
  Impl(Options options, std::shared_ptr<ParameterShard> shard)
      : shard_(shard), service_(std::move(options), std::move(shard)) {}

  absl::StatusOr<int> Start(absl::string_view address) {
    CHECK(server_ == nullptr) << "started twice";
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort(std::string(address), grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(&service_);
    // A slot's size is the plan's business, not the transport's.
    builder.SetMaxReceiveMessageSize(-1);
    builder.SetMaxSendMessageSize(-1);
    // Two servers at one port would share its connections.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) {
      return absl::UnavailableError(absl::StrCat("cannot listen at ", address));
    }
    return port;
  }

  void Shutdown(absl::Duration grace) {
    if (server_ == nullptr) return;
    shard_->Abort(PeerLostError("the parameter server is shutting down"));
    server_->Shutdown(SystemDeadline(grace));
    server_->Wait();
    server_.reset();
  }

 private:
  const std::shared_ptr<ParameterShard> shard_;
  Service service_;
  std::unique_ptr<grpc::Server> server_;  // After service_, which it uses.
};

ParameterServerHost::ParameterServerHost(Options options,
                                         std::shared_ptr<ParameterShard> shard)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(shard))) {}

ParameterServerHost::~ParameterServerHost() { Shutdown(absl::Seconds(1)); }

absl::StatusOr<int> ParameterServerHost::Start(absl::string_view address) {
  return impl_->Start(address);
}

void ParameterServerHost::Shutdown(absl::Duration grace) { impl_->Shutdown(grace); }

}  // namespace psring
