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
    ParameterRequest request = RequestOf(ParameterRequest::INITIALIZE, slot, /*step=*/0);
    request.set_payload(parameters.data(), parameters.size_bytes());
    Send(std::move(request), {}, WithoutAnswer(std::move(done)));
  }
  void Pull(const Slot& slot, int64_t step, std::span<float> parameters,
            PullDone done) override {
    Send(RequestOf(ParameterRequest::PULL, slot, step), parameters,
         WithParameters(std::move(done)));
  }
  void Exchange(const Slot& slot, int64_t step, int64_t version, Bytes gradient,
                std::span<float> parameters, PullDone done) override {
    ParameterRequest request = RequestOf(ParameterRequest::EXCHANGE, slot, step);
    request.set_version(version);
    request.set_payload(gradient.data(), gradient.size());
    Send(std::move(request), parameters, WithParameters(std::move(done)));
  }
  void Snapshot(const Slot& slot, int64_t step, std::span<float> parameters,
                SnapshotDone done) override {
    Send(RequestOf(ParameterRequest::SNAPSHOT, slot, step), parameters,
         [done = std::move(done)](const AnswerOr& answer) {
           if (!answer.ok()) return done(answer.status());
           done(SnapshotInfo{.version = answer->version(),
                             .time = absl::Nanoseconds(answer->time_ns())});
         });
  }
  void Leave(Done done) override {
    ParameterRequest request;
    request.set_operation(ParameterRequest::LEAVE);
    Send(std::move(request), {}, WithoutAnswer(std::move(done)));
  }

  void Abort(const absl::Status& reason) override {
    MutexLock lock(&mutex_);
    if (!error_.ok()) return;
    error_ = reason;
    context_.TryCancel();
  }

 private:
  using AnswerOr = absl::StatusOr<ParameterAnswer>;
  using AnswerDone = std::function<void(const AnswerOr& answer)>;
  struct Pending {
    std::span<float> parameters;
    AnswerDone done;
  };

  static AnswerDone WithoutAnswer(Done done) {
    return [done = std::move(done)](const AnswerOr& answer) { done(answer.status()); };
  }
  static AnswerDone WithParameters(PullDone done) {
    return [done = std::move(done)](const AnswerOr& answer) {
      if (!answer.ok()) return done(answer.status());
      done(Pulled{.version = answer->version(),
                  .step = answer->step(),
                  .finished = answer->finished(),
                  .parked = absl::Nanoseconds(answer->parked_ns()),
                  .released_by = answer->released_by(),
                  .working = absl::Nanoseconds(answer->working_ns())});
    };
  }
  static ParameterRequest RequestOf(ParameterRequest::Operation operation,
                                    const Slot& slot, int64_t step) {
    ParameterRequest request;
    request.set_operation(operation);
    request.set_slot(slot.index);
    request.set_step(step);
    return request;
  }

  void Send(ParameterRequest request, std::span<float> parameters, AnswerDone done) {
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
      pending.done(answer);
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
