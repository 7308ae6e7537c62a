#include "tests/plain_parameter_channel.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

#include "common/errors.h"
#include "common/grpc_status.h"
#include "common/mutex.h"
#include "common/wire_protocol.h"
#include "grpcpp/grpcpp.h"
#include "proto/parameter_server.grpc.pb.h"
#include "proto/parameter_server.pb.h"

namespace psring {
namespace {

class PlainParameterChannel final : public ParameterChannel {
 public:
  PlainParameterChannel(int rank, const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = ParameterService::NewStub(grpc::CreateCustomChannel(
        address, grpc::InsecureChannelCredentials(), arguments));
    WorkerHello hello;
    hello.set_protocol_version(kWireProtocolVersion);
    hello.set_job("test");
    hello.set_rank(rank);
    context_.AddMetadata(kHelloMetadata, hello.SerializeAsString());
    stream_ = stub_->Exchange(&context_);
    reader_ = std::thread([this] { ReadAnswers(); });
  }

  ~PlainParameterChannel() override {
    Abort(absl::CancelledError("the channel has ended"));
    reader_.join();
  }

  void Initialize(const Slot& slot, std::span<const float> parameters,
                  Done done) override {
    Send(ParameterRequest::INITIALIZE, slot, /*step=*/0, parameters, {},
         [done](const absl::StatusOr<int64_t>& outcome) { done(outcome.status()); });
  }
  void Push(const Slot& slot, int64_t step, std::span<const float> gradient,
            Done done) override {
    Send(ParameterRequest::PUSH, slot, step, gradient, {},
         [done](const absl::StatusOr<int64_t>& outcome) { done(outcome.status()); });
  }
  void Pull(const Slot& slot, int64_t step, std::span<float> parameters,
            PullDone done) override {
    Send(ParameterRequest::PULL, slot, step, {}, parameters, std::move(done));
  }

  void Abort(const absl::Status& reason) override {
    MutexLock lock(&mutex_);
    if (!error_.ok()) return;
    error_ = reason;
    context_.TryCancel();
  }

 private:
  struct Pending {
    std::span<float> parameters;
    PullDone done;
  };

  void Send(ParameterRequest::Operation operation, const Slot& slot, int64_t step,
            std::span<const float> payload, std::span<float> parameters, PullDone done) {
    ParameterRequest request;
    request.set_operation(operation);
    request.set_slot(slot.index);
    request.set_step(step);
    request.set_payload(payload.data(), payload.size_bytes());
    absl::Status error;
    {
      MutexLock lock(&mutex_);
      error = error_;
      if (error.ok()) {
        request.set_id(++last_id_);
        pending_[request.id()] = {.parameters = parameters, .done = done};
      }
    }
    if (!error.ok()) {
      done(error);
      return;
    }
    MutexLock lock(&write_mutex_);
    stream_->Write(request);  // A failure is the reader's to see.
  }

  void ReadAnswers() {
    ParameterAnswer answer;
    while (stream_->Read(&answer)) {
      Pending pending;
      {
        MutexLock lock(&mutex_);
        const auto found = pending_.find(answer.id());
        if (found == pending_.end()) continue;
        pending = std::move(found->second);
        pending_.erase(found);
      }
      if (answer.has_failure()) {
        pending.done(FromFailure(answer.failure()));
        continue;
      }
      if (!pending.parameters.empty()) {
        std::memcpy(pending.parameters.data(), answer.payload().data(),
                    std::min(answer.payload().size(), pending.parameters.size_bytes()));
      }
      pending.done(answer.version());
    }
    const absl::Status status = FromGrpc(stream_->Finish());
    std::map<uint64_t, Pending> left;
    absl::Status error;
    {
      MutexLock lock(&mutex_);
      if (error_.ok()) error_ = status.ok() ? PeerLostError("the stream ended") : status;
      error = error_;
      left.swap(pending_);
    }
    for (const auto& [id, pending] : left) pending.done(error);
  }

  std::unique_ptr<ParameterService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<ParameterRequest, ParameterAnswer>> stream_;
  Mutex write_mutex_;

  Mutex mutex_;
  absl::Status error_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<uint64_t, Pending> pending_ ABSL_GUARDED_BY(mutex_);

  std::thread reader_;
};

}  // namespace

std::unique_ptr<ParameterChannel> NewPlainParameterChannel(int rank,
                                                           const std::string& address) {
  return std::make_unique<PlainParameterChannel>(rank, address);
}

}  // namespace psring
