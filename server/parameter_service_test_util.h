// A parameter server of one slot, and workers that speak to it through a plain generated
// stub, as any gRPC client would.
#ifndef PSRING_SERVER_PARAMETER_SERVICE_TEST_UTIL_H_
#define PSRING_SERVER_PARAMETER_SERVICE_TEST_UTIL_H_

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/computed_step_constants.h"
#include "common/errors.h"
#include "common/grpc_status.h"
#include "common/partition.h"
#include "common/slot_plan.h"
#include "common/status_matchers.h"
#include "common/time_source.h"
#include "common/wire_protocol.h"
#include "gmock/gmock.h"
#include "grpc/grpc.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/experiment.pb.h"
#include "proto/parameter_server.grpc.pb.h"
#include "proto/parameter_server.pb.h"
#include "server/parameter_service.h"
#include "server/policies.h"

namespace psring {

inline constexpr uint64_t kFingerprint = 0xabcdef;
inline constexpr int64_t kSteps = 10;

inline std::string PayloadOf(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(float));
}

inline std::vector<float> FloatsOf(const std::string& payload) {
  std::vector<float> values(payload.size() / sizeof(float));
  std::memcpy(values.data(), payload.data(), values.size() * sizeof(float));
  return values;
}

inline WorkerHello HelloOf(int rank) {
  WorkerHello hello;
  hello.set_protocol_version(kWireProtocolVersion);
  hello.set_job("job");
  hello.set_rank(rank);
  hello.set_incarnation(1);
  hello.set_fingerprint(kFingerprint);
  return hello;
}

// One worker's stream.
class Client {
 public:
  Client(const std::shared_ptr<grpc::Channel>& channel,
         const std::optional<std::string>& hello)
      : stub_(ParameterService::NewStub(channel)) {
    if (hello.has_value()) context_.AddMetadata(kHelloMetadata, *hello);
    stream_ = stub_->Exchange(&context_);
  }
  // Unless the test has ended it.
  ~Client() { context_.TryCancel(); }

  void Send(ParameterRequest request) {
    request.set_id(++last_id_);
    stream_->Write(request);
  }
  void SendNoMore() { stream_->WritesDone(); }
  // The next answer; an error is a refused request's, or the stream's.
  absl::StatusOr<ParameterAnswer> Receive() {
    ParameterAnswer answer;
    if (!stream_->Read(&answer)) {
      const absl::Status status = FromGrpc(stream_->Finish());
      return status.ok() ? absl::OutOfRangeError("the stream has ended") : status;
    }
    if (answer.has_failure()) return FromFailure(answer.failure());
    return answer;
  }
  absl::StatusOr<ParameterAnswer> Ask(ParameterRequest request) {
    Send(std::move(request));
    absl::StatusOr<ParameterAnswer> answer = Receive();
    if (answer.ok()) {
      EXPECT_EQ(answer->id(), last_id_);
    }
    return answer;
  }
  void Cancel() { context_.TryCancel(); }

 private:
  std::unique_ptr<ParameterService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<ParameterRequest, ParameterAnswer>> stream_;
  uint64_t last_id_ = 0;
};

// One server with one slot of `count` elements, and more where a test has set them; two
// workers.
class ParameterServiceTest : public testing::Test {
 protected:
  // gRPC is kept until the process ends: where its last object goes after large writes,
  // its clean-up may wait ten seconds for a poller of its own.
  static void SetUpTestSuite() { grpc_init(); }

  void Start(int64_t count = 3, absl::Duration stall_timeout = absl::InfiniteDuration(),
             const WireType& wire = {}) {
    ParameterShard::Options options;
    options.slots = {
        {.index = 5, .bucket = 0, .server = 0, .range = {.begin = 0, .count = count}}};
    Range bucket{.begin = 0, .count = count};
    for (const Slot& slot : more_slots_) {
      options.slots.push_back(slot);
      bucket.count += slot.range.count;
    }
    options.bucket_ranges = {bucket};
    options.workers = 2;
    options.optimizer.mutable_sgd()->set_learning_rate(1);
    options.constants =
        std::make_shared<ComputedStepConstants>(options.optimizer, kSteps);
    options.steps = kSteps;
    options.time = &time_;
    ASSERT_OK_AND_ASSIGN(auto policy, MakePolicy(ParameterServerMode(), options.workers));
    shard_ = std::make_shared<ParameterShard>(std::move(options), std::move(policy));
    host_ = std::make_unique<ParameterServerHost>(
        ParameterServerHost::Options{.job = "job",
                                     .fingerprint = kFingerprint,
                                     .wire = wire,
                                     .stall_timeout = stall_timeout},
        shard_);
    ASSERT_OK_AND_ASSIGN(port_, host_->Start("127.0.0.1:0"));
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    // A window that stays as it is: what nobody reads is not taken from the server.
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    channel_ = grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port_),
                                         grpc::InsecureChannelCredentials(), arguments);
    for (int rank = 0; rank < 2; ++rank) {
      workers_.push_back(NewClient(HelloOf(rank).SerializeAsString()));
    }
  }
  std::unique_ptr<Client> NewClient(const std::optional<std::string>& hello) {
    return std::make_unique<Client>(channel_, hello);
  }

  // Requests with everything right; tests spoil one field.
  static ParameterRequest GoodInitialize() {
    ParameterRequest request;
    request.set_operation(ParameterRequest::INITIALIZE);
    request.set_slot(5);
    request.set_payload(PayloadOf({1, 2, 3}));
    return request;
  }
  static ParameterRequest GoodPush() {
    ParameterRequest request;
    request.set_operation(ParameterRequest::PUSH);
    request.set_slot(5);
    request.set_payload(PayloadOf({1, 1, 1}));
    return request;
  }
  static ParameterRequest GoodPull(int64_t step) {
    ParameterRequest request;
    request.set_operation(ParameterRequest::PULL);
    request.set_step(step);
    request.set_slot(5);
    return request;
  }

  static ParameterRequest GoodExchange() {
    ParameterRequest request = GoodPush();
    request.set_operation(ParameterRequest::EXCHANGE);
    return request;
  }

  // Returns when so many pulls are parked.
  void AwaitParked(int64_t count) {
    while (shard_->parked_pulls() != count) std::this_thread::yield();
  }
  void ExpectARoundWorks() {
    ASSERT_OK(workers_[0]->Ask(GoodPush()));
    ASSERT_OK(workers_[1]->Ask(GoodPush()));
    ASSERT_OK_AND_ASSIGN(const ParameterAnswer answer, workers_[0]->Ask(GoodPull(1)));
    EXPECT_THAT(FloatsOf(answer.payload()), testing::ElementsAre(0, 1, 2));
  }
  // Sends the bytes as one message and returns how the stream ends.
  absl::Status EndAfter(const std::string& message) {
    grpc::ClientContext context;
    context.AddMetadata(kHelloMetadata, HelloOf(1).SerializeAsString());
    const std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>>
        stream(grpc::internal::
                   ClientReaderWriterFactory<grpc::ByteBuffer, grpc::ByteBuffer>::Create(
                       channel_.get(),
                       grpc::internal::RpcMethod(
                           "/psring.ParameterService/Exchange",
                           grpc::internal::RpcMethod::BIDI_STREAMING, channel_),
                       &context));
    const grpc::Slice slice(message);
    stream->Write(grpc::ByteBuffer(&slice, 1));
    grpc::ByteBuffer answer;
    while (stream->Read(&answer)) {
    }
    return FromGrpc(stream->Finish());
  }

  std::vector<Slot> more_slots_;  // Of bucket 0, behind the first, without gaps.
  const RealTime time_;
  std::shared_ptr<ParameterShard> shard_;
  std::unique_ptr<ParameterServerHost> host_;
  int port_ = 0;
  std::shared_ptr<grpc::Channel> channel_;
  std::vector<std::unique_ptr<Client>> workers_;
};

}  // namespace psring

#endif  // PSRING_SERVER_PARAMETER_SERVICE_TEST_UTIL_H_
