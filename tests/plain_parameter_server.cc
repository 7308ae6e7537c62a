#include "tests/plain_parameter_server.h"

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "common/wire_protocol.h"
#include "glog/logging.h"
#include "grpcpp/grpcpp.h"
#include "proto/parameter_server.grpc.pb.h"
#include "proto/parameter_server.pb.h"
#include "server/contribution_decoder.h"

namespace psring {
namespace {

using Stream = grpc::ServerReaderWriter<ParameterAnswer, ParameterRequest>;

// Writes the answers of one stream, from any thread, until the call is over: a parked
// pull may be answered later than that.
class Answers {
 public:
  explicit Answers(Stream* stream) : stream_(stream) {}

  void Write(const ParameterAnswer& answer) {
    MutexLock lock(&mutex_);
    if (stream_ != nullptr) stream_->Write(answer);
  }
  void Close() {
    MutexLock lock(&mutex_);
    stream_ = nullptr;
  }

 private:
  Mutex mutex_;
  Stream* stream_ ABSL_GUARDED_BY(mutex_);
};

class Service final : public ParameterService::Service {
 public:
  Service(std::shared_ptr<ParameterShard> shard, const WireType& wire)
      : shard_(std::move(shard)), decoder_(wire) {}

  grpc::Status Exchange(grpc::ServerContext* context, Stream* stream) override {
    WorkerHello hello;
    const auto metadata = context->client_metadata().find(kHelloMetadata);
    CHECK(metadata != context->client_metadata().end());
    CHECK(hello.ParseFromArray(metadata->second.data(),
                               static_cast<int>(metadata->second.size())));
    const auto answers = std::make_shared<Answers>(stream);
    ParameterRequest request;
    while (stream->Read(&request)) Serve(hello.rank(), request, answers);
    answers->Close();
    return grpc::Status::OK;
  }

 private:
  void Serve(int rank, const ParameterRequest& request,
             const std::shared_ptr<Answers>& answers) {
    const auto reply = [answers, id = request.id()](const absl::Status& status) {
      ParameterAnswer answer;
      answer.set_id(id);
      if (!status.ok()) *answer.mutable_failure() = ToFailure(status);
      answers->Write(answer);
    };
    const auto floats =
        std::make_shared<std::vector<float>>(request.payload().size() / sizeof(float));
    // Not memcpy: a request without a payload has nowhere to copy to.
    request.payload().copy(reinterpret_cast<char*>(floats->data()),
                           floats->size() * sizeof(float));
    const auto push = [&]() -> absl::Status {
      const auto payload = std::make_shared<const std::string>(request.payload());
      ASSIGN_OR_RETURN(Contribution contribution,
                       decoder_.Decode({std::as_bytes(std::span(*payload))}, payload,
                                       shard_->ElementsOf(request.slot())));
      return shard_->Push({.rank = rank,
                           .step = request.step(),
                           .slot = request.slot(),
                           .version = request.version()},
                          std::move(contribution));
    };
    const auto pull = [&](int64_t step) {
      shard_->Pull(
          {.rank = rank, .step = step, .slot = request.slot()},
          [answers, reply, id = request.id()](const absl::StatusOr<PullAnswer>& pulled) {
            if (!pulled.ok()) return reply(pulled.status());
            ParameterAnswer answer = AnswerOf(id, pulled->parameters);
            answer.set_step(pulled->step);
            answer.set_finished(pulled->finished);
            answer.set_parked_ns(absl::ToInt64Nanoseconds(pulled->parked));
            answer.set_released_by(pulled->released_by);
            answer.set_working_ns(absl::ToInt64Nanoseconds(pulled->working));
            answers->Write(answer);
          });
    };
    switch (request.operation()) {
      case ParameterRequest::INITIALIZE:
        return reply(shard_->Initialize(request.slot(), *floats));
      case ParameterRequest::PUSH:
        return reply(push());
      case ParameterRequest::PULL:
        return pull(request.step());
      case ParameterRequest::EXCHANGE:
        if (const absl::Status pushed = push(); !pushed.ok()) return reply(pushed);
        return pull(request.step() + 1);
      case ParameterRequest::LEAVE:
        return reply(shard_->Leave(rank));
      case ParameterRequest::SNAPSHOT: {
        const auto snapshot = shard_->Snapshot(
            {.rank = rank, .step = request.step(), .slot = request.slot()});
        if (!snapshot.ok()) return reply(snapshot.status());
        ParameterAnswer answer = AnswerOf(request.id(), snapshot->parameters);
        answer.set_time_ns(absl::ToInt64Nanoseconds(snapshot->time));
        answers->Write(answer);
        return;
      }
      default:
        return reply(absl::InvalidArgumentError("the operation is none"));
    }
  }

  static ParameterAnswer AnswerOf(uint64_t id, const SlotVersion& parameters) {
    ParameterAnswer answer;
    answer.set_id(id);
    answer.set_version(parameters.version);
    answer.set_payload(parameters.values.data(), parameters.values.size_bytes());
    return answer;
  }

  const std::shared_ptr<ParameterShard> shard_;
  const ContributionDecoder decoder_;
};

}  // namespace

class PlainParameterServer::Impl {
 public:
  Impl(std::shared_ptr<ParameterShard> shard, const WireType& wire)
      : service_(std::move(shard), wire) {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    builder.SetMaxReceiveMessageSize(-1);
    server_ = builder.BuildAndStart();
    CHECK(server_ != nullptr);
    address_ = absl::StrCat("127.0.0.1:", port);
  }
  ~Impl() { server_->Shutdown(std::chrono::system_clock::now()); }

  const std::string& address() const { return address_; }

 private:
  Service service_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

PlainParameterServer::PlainParameterServer(std::shared_ptr<ParameterShard> shard,
                                           const WireType& wire)
    : impl_(std::make_unique<Impl>(std::move(shard), wire)) {}

PlainParameterServer::~PlainParameterServer() = default;

const std::string& PlainParameterServer::address() const { return impl_->address(); }

}  // namespace psring
