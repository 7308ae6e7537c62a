// The service as any gRPC client sees it: a plain generated stub against a real server.
#include "server/parameter_service.h"

#include <cstring>
#include <limits>
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
#include "common/status_matchers.h"
#include "common/time_source.h"
#include "common/wire_message.h"
#include "common/wire_protocol.h"
#include "gmock/gmock.h"
#include "grpc/grpc.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/experiment.pb.h"
#include "proto/parameter_server.grpc.pb.h"
#include "proto/parameter_server.pb.h"
#include "server/policies.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kFailedPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr uint64_t kFingerprint = 0xabcdef;
constexpr int64_t kSteps = 10;

std::string PayloadOf(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(float));
}

std::vector<float> FloatsOf(const std::string& payload) {
  std::vector<float> values(payload.size() / sizeof(float));
  std::memcpy(values.data(), payload.data(), values.size() * sizeof(float));
  return values;
}

WorkerHello HelloOf(int rank) {
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

// One server with one slot of `count` elements, two workers.
class ParameterServiceTest : public testing::Test {
 protected:
  // gRPC is kept until the process ends: where its last object goes after large writes,
  // its clean-up may wait ten seconds for a poller of its own.
  static void SetUpTestSuite() { grpc_init(); }

  void Start(int64_t count = 3, absl::Duration stall_timeout = absl::InfiniteDuration()) {
    ParameterShard::Options options;
    options.slots = {
        {.index = 5, .bucket = 0, .server = 0, .range = {.begin = 0, .count = count}}};
    options.bucket_ranges = {{.begin = 0, .count = count}};
    options.workers = 2;
    options.optimizer.mutable_sgd()->set_learning_rate(1);
    options.constants =
        std::make_shared<ComputedStepConstants>(options.optimizer, kSteps);
    options.steps = kSteps;
    options.time = &time_;
    ASSERT_OK_AND_ASSIGN(auto policy, MakePolicy(ParameterServerMode(), options.workers));
    shard_ = std::make_shared<ParameterShard>(std::move(options), std::move(policy));
    host_ = std::make_unique<ParameterServerHost>(
        ParameterServerHost::Options{
            .job = "job", .fingerprint = kFingerprint, .stall_timeout = stall_timeout},
        shard_);
    ASSERT_OK_AND_ASSIGN(port_, host_->Start("127.0.0.1:0"));
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
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
    EXPECT_THAT(FloatsOf(answer.payload()), ElementsAre(0, 1, 2));
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

  const RealTime time_;
  std::shared_ptr<ParameterShard> shard_;
  std::unique_ptr<ParameterServerHost> host_;
  int port_ = 0;
  std::shared_ptr<grpc::Channel> channel_;
  std::vector<std::unique_ptr<Client>> workers_;
};

TEST_F(ParameterServiceTest, ARoundOverTheWire) {
  Start();
  workers_[1]->Send(GoodPull(0));
  ASSERT_OK(workers_[0]->Ask(GoodInitialize()));
  ASSERT_OK_AND_ASSIGN(const ParameterAnswer initial, workers_[1]->Receive());
  EXPECT_EQ(initial.version(), 0);
  EXPECT_THAT(FloatsOf(initial.payload()), ElementsAre(1, 2, 3));

  workers_[0]->Send(GoodPull(1));
  AwaitParked(1);
  ASSERT_OK(workers_[1]->Ask(GoodPush()));
  workers_[0]->Send(GoodPush());
  // The pull's answer comes when the push has closed the round, so before the push's.
  ASSERT_OK_AND_ASSIGN(const ParameterAnswer next, workers_[0]->Receive());
  EXPECT_EQ(next.id(), 2u);
  EXPECT_EQ(next.version(), 1);
  EXPECT_THAT(FloatsOf(next.payload()), ElementsAre(0, 1, 2));
  ASSERT_OK_AND_ASSIGN(const ParameterAnswer pushed, workers_[0]->Receive());
  EXPECT_EQ(pushed.id(), 3u);
}

TEST_F(ParameterServiceTest, AnExchangePushesAndHasThePullsAnswerOnly) {
  Start();
  ASSERT_OK(workers_[0]->Ask(GoodInitialize()));
  workers_[0]->Send(GoodExchange());
  AwaitParked(1);
  ASSERT_OK_AND_ASSIGN(const ParameterAnswer last, workers_[1]->Ask(GoodExchange()));
  ASSERT_OK_AND_ASSIGN(const ParameterAnswer first, workers_[0]->Receive());
  EXPECT_EQ(first.id(), 2u);
  EXPECT_GT(first.parked_ns(), 0);
  EXPECT_EQ(first.released_by(), 1);
  for (const ParameterAnswer& answer : {first, last}) {
    EXPECT_EQ(answer.version(), 1);
    EXPECT_EQ(answer.step(), 1);
    EXPECT_THAT(FloatsOf(answer.payload()), ElementsAre(0, 1, 2));
  }
  EXPECT_EQ(shard_->traffic().payload_in, 24);
  EXPECT_EQ(shard_->traffic().payload_out, 24);
  // There is nothing before the answer to the next request.
  ASSERT_OK(workers_[0]->Ask(GoodPull(1)));
}

TEST_F(ParameterServiceTest, AnExchangeThatIsRefusedPullsNothing) {
  Start();
  EXPECT_THAT(workers_[0]->Ask(GoodExchange()),
              StatusIs(kFailedPrecondition, HasSubstr("slot 5 is not initialized")));
  ASSERT_OK(workers_[0]->Ask(GoodInitialize()));
  ParameterRequest exchange = GoodExchange();
  exchange.clear_payload();
  EXPECT_THAT(workers_[0]->Ask(exchange),
              StatusIs(kInvalidArgument, HasSubstr("the push of rank 0 carries 0")));
  exchange = GoodExchange();
  exchange.set_step(std::numeric_limits<int64_t>::max());
  EXPECT_THAT(workers_[0]->Ask(exchange),
              StatusIs(kFailedPrecondition, HasSubstr("which has not begun")));
  EXPECT_EQ(shard_->parked_pulls(), 0);
  ExpectARoundWorks();
}

TEST_F(ParameterServiceTest, AStalledExchangeIsAnsweredWithTheNamesAndCanBeRepeated) {
  Start(/*count=*/3, /*stall_timeout=*/absl::Milliseconds(1));
  ASSERT_OK(workers_[0]->Ask(GoodInitialize()));
  for (int times = 0; times < 2; ++times) {
    EXPECT_THAT(workers_[0]->Ask(GoodExchange()),
                StatusIs(absl::StatusCode::kUnavailable,
                         AllOf(HasSubstr("slot 5, pulled by rank 0 for step 1"),
                               HasSubstr("waits for the push of worker 1"))));
  }
  // It has counted, once, although nothing was pulled.
  ASSERT_OK_AND_ASSIGN(const ParameterAnswer answer, workers_[1]->Ask(GoodExchange()));
  EXPECT_EQ(answer.version(), 1);
  EXPECT_THAT(FloatsOf(answer.payload()), ElementsAre(0, 1, 2));
}

TEST_F(ParameterServiceTest, ASlotMayExceedTheTransportsDefaultLimit) {
  constexpr int64_t kCount = 2 << 20;  // 8 MiB; the default is 4.
  Start(kCount);
  ParameterRequest initialize = GoodInitialize();
  initialize.set_payload(PayloadOf(std::vector<float>(kCount, 1)));
  ASSERT_OK(workers_[0]->Ask(initialize));
  for (const auto& worker : workers_) {
    ParameterRequest push = GoodPush();
    push.set_payload(PayloadOf(std::vector<float>(kCount, 2)));
    ASSERT_OK(worker->Ask(push));
  }
  ASSERT_OK_AND_ASSIGN(const ParameterAnswer answer, workers_[0]->Ask(GoodPull(1)));
  EXPECT_EQ(FloatsOf(answer.payload()), std::vector<float>(kCount, -1));
}

TEST_F(ParameterServiceTest, RefusesRequestsThatDoNotFitAndReadsOn) {
  Start();
  Client& worker = *workers_[0];
  const auto is_invalid = [](const std::string& part) {
    return StatusIs(kInvalidArgument, HasSubstr(part));
  };
  ParameterRequest initialize = GoodInitialize();
  initialize.set_slot(4);
  EXPECT_THAT(worker.Ask(initialize), is_invalid("slot 4, the slots here are: 5"));
  initialize = GoodInitialize();
  initialize.clear_payload();
  EXPECT_THAT(worker.Ask(initialize), is_invalid("has 3 elements here"));
  EXPECT_THAT(workers_[1]->Ask(GoodInitialize()),
              is_invalid("rank 1 initializes slot 5, which is for worker 0 to do"));
  EXPECT_THAT(worker.Ask(GoodPush()),
              StatusIs(kFailedPrecondition, HasSubstr("slot 5 is not initialized")));
  ASSERT_OK(worker.Ask(GoodInitialize()));

  ParameterRequest push = GoodPush();
  push.clear_payload();
  EXPECT_THAT(worker.Ask(push),
              is_invalid("3 elements here, the push of rank 0 carries 0"));
  push.set_payload(PayloadOf({1, 1}));
  EXPECT_THAT(worker.Ask(push),
              is_invalid("3 elements here, the push of rank 0 carries 2"));
  push = GoodPush();
  push.set_slot(-1);
  EXPECT_THAT(worker.Ask(push), is_invalid("slot -1"));
  push = GoodPush();
  push.set_step(-1);
  EXPECT_THAT(worker.Ask(push), is_invalid("step -1"));
  push.set_step(1);
  EXPECT_THAT(worker.Ask(push),
              StatusIs(kFailedPrecondition, HasSubstr("which has not begun")));
  push = GoodPush();
  push.set_version(1);
  EXPECT_THAT(worker.Ask(push), is_invalid("computed from version 1"));

  ParameterRequest pull = GoodPull(0);
  pull.set_slot(6);
  EXPECT_THAT(worker.Ask(pull), is_invalid("slot 6"));
  EXPECT_THAT(worker.Ask(GoodPull(-1)), is_invalid("step -1"));
  pull.set_operation(ParameterRequest::UNSPECIFIED);
  EXPECT_THAT(worker.Ask(pull), is_invalid("operation 0, which is none"));
  pull.set_operation(static_cast<ParameterRequest::Operation>(77));
  EXPECT_THAT(worker.Ask(pull), is_invalid("operation 77, which is none"));

  // The server is as if nothing had happened.
  ExpectARoundWorks();
}

TEST_F(ParameterServiceTest, RefusesWorkersThatDoNotBelongHere) {
  Start();
  const auto end_of = [&](const WorkerHello& hello) {
    return NewClient(hello.SerializeAsString())->Receive().status();
  };
  EXPECT_THAT(NewClient(std::nullopt)->Receive(),
              StatusIs(kInvalidArgument, HasSubstr("the call says no hello")));
  EXPECT_THAT(NewClient("\x0a\xff")->Receive(),
              StatusIs(kInvalidArgument, HasSubstr("the hello (metadata "
                                                   "psring-hello-bin) is malformed")));
  WorkerHello hello = HelloOf(0);
  hello.set_protocol_version(0);
  EXPECT_THAT(end_of(hello),
              StatusIs(kFailedPrecondition,
                       "this server speaks version 2 of the protocol, the worker version "
                       "0"));
  hello = HelloOf(0);
  hello.set_job("other");
  EXPECT_THAT(end_of(hello),
              StatusIs(kInvalidArgument,
                       "this server is of job \"job\", the worker of \"other\""));
  EXPECT_THAT(end_of(HelloOf(2)),
              StatusIs(kInvalidArgument, "rank 2 says hello to a server of 2 workers"));
  EXPECT_THAT(end_of(HelloOf(-1)), StatusIs(kInvalidArgument, HasSubstr("rank -1")));
  hello = HelloOf(1);
  hello.set_fingerprint(0x123);
  EXPECT_THAT(end_of(hello),
              StatusIs(kFailedPrecondition,
                       AllOf(HasSubstr("rank 1"), HasSubstr("0000000000000123 there"),
                             HasSubstr("0000000000abcdef here"))));
  ASSERT_OK(workers_[0]->Ask(GoodInitialize()));
  ExpectARoundWorks();
}

TEST_F(ParameterServiceTest, AMalformedMessageEndsItsStreamAndNoOther) {
  Start();
  ASSERT_OK(workers_[0]->Ask(GoodInitialize()));
  const auto is_malformed = [](const std::string& part) {
    return StatusIs(kInvalidArgument,
                    AllOf(HasSubstr(part), testing::Not(HasSubstr("\n"))));
  };
  ParameterRequest push = GoodPush();
  const std::string good = push.SerializeAsString();
  EXPECT_THAT(EndAfter(good.substr(0, good.size() - 1)), is_malformed("11 are left"));
  EXPECT_THAT(EndAfter("\x7a" + std::string(9, '\xff') + "\x01"),
              is_malformed("field 15 has 18446744073709551615 bytes"));
  EXPECT_THAT(EndAfter("\x08" + std::string(10, '\xff')), is_malformed("64 bits"));
  EXPECT_THAT(EndAfter("GET / HTTP/1.1"), is_malformed("malformed message"));
  push.set_payload("1234567");
  EXPECT_THAT(EndAfter(push.SerializeAsString()),
              is_malformed("7 bytes, which are no whole floats"));
  EXPECT_EQ(shard_->traffic().payload_in, 0);
  ExpectARoundWorks();
}

TEST_F(ParameterServiceTest, AMessageLargerThanAnySlotIsNotReceived) {
  Start();
  ParameterRequest push = GoodPush();
  push.set_payload(std::string(3 * sizeof(float) + kMaxHeaderBytes + 1, 'x'));
  EXPECT_THAT(workers_[0]->Ask(push),
              StatusIs(absl::StatusCode::kResourceExhausted, testing::_));
}

TEST_F(ParameterServiceTest, AWorkerThatGoesFreesWhatItParked) {
  Start();
  ASSERT_OK(workers_[0]->Ask(GoodInitialize()));
  workers_[0]->Send(GoodPull(1));
  workers_[0]->Send(GoodPull(1));
  AwaitParked(2);
  workers_[0]->Cancel();
  AwaitParked(0);
}

TEST_F(ParameterServiceTest, AWorkerThatSendsNoMoreStillGetsItsAnswers) {
  Start();
  ASSERT_OK(workers_[0]->Ask(GoodInitialize()));
  workers_[0]->Send(GoodPush());
  workers_[0]->Send(GoodPull(1));
  workers_[0]->SendNoMore();
  AwaitParked(1);
  ASSERT_OK(workers_[1]->Ask(GoodPush()));
  ASSERT_OK(workers_[0]->Receive());  // The push's.
  ASSERT_OK_AND_ASSIGN(const ParameterAnswer answer, workers_[0]->Receive());
  EXPECT_THAT(FloatsOf(answer.payload()), ElementsAre(0, 1, 2));
  EXPECT_THAT(workers_[0]->Receive(),
              StatusIs(absl::StatusCode::kOutOfRange, testing::_));
}

TEST_F(ParameterServiceTest, OfAWorkerWithTooManyRequestsTheRestWaitsUnread) {
  constexpr int kPulls = 100;
  Start();
  ASSERT_OK(workers_[0]->Ask(GoodInitialize()));
  for (int i = 0; i < kPulls; ++i) workers_[0]->Send(GoodPull(1));
  AwaitParked(2 * 1 + 16);
  // A push behind them is not read, so the round stays open until another stream closes
  // it; then everything is answered.
  workers_[0]->Send(GoodPush());
  const auto again = NewClient(HelloOf(0).SerializeAsString());
  ASSERT_OK(again->Ask(GoodPush()));
  ASSERT_OK(workers_[1]->Ask(GoodPush()));
  for (int i = 0; i < kPulls + 1; ++i) ASSERT_OK(workers_[0]->Receive());
}

TEST_F(ParameterServiceTest, ANewIncarnationOfARankTakesThePlaceOfTheOld) {
  Start();
  ASSERT_OK(workers_[0]->Ask(GoodInitialize()));
  workers_[1]->Send(GoodPull(1));
  AwaitParked(1);
  WorkerHello hello = HelloOf(1);
  hello.set_incarnation(2);
  const auto replacement = NewClient(hello.SerializeAsString());
  ASSERT_OK(replacement->Ask(GoodPush()));
  EXPECT_THAT(workers_[1]->Receive(),
              StatusIs(kFailedPrecondition,
                       HasSubstr("rank 1 has connected as another process (incarnation "
                                 "0000000000000002, this one is 0000000000000001)")));
  AwaitParked(0);
  // The old one is refused from now on, however it comes, and changes nothing.
  const auto again = NewClient(HelloOf(1).SerializeAsString());
  again->Send(GoodPush());
  EXPECT_THAT(
      again->Receive(),
      StatusIs(kFailedPrecondition,
               HasSubstr("rank 1, incarnation 0000000000000001, comes again, but "
                         "another process (incarnation 0000000000000002) has taken "
                         "its place")));
  // What the rank has pushed counts once, whichever of its processes repeats it.
  ASSERT_OK(replacement->Ask(GoodPush()));
  ASSERT_OK(workers_[0]->Ask(GoodPush()));
  ASSERT_OK_AND_ASSIGN(const ParameterAnswer answer, replacement->Ask(GoodPull(1)));
  EXPECT_EQ(answer.version(), 1);
  EXPECT_THAT(FloatsOf(answer.payload()), ElementsAre(0, 1, 2));
}

TEST_F(ParameterServiceTest, AnAnswerSaysForHowLongItWasKeptBackAndForWhom) {
  Start();
  ASSERT_OK(workers_[0]->Ask(GoodInitialize()));
  ASSERT_OK_AND_ASSIGN(const ParameterAnswer initial, workers_[0]->Ask(GoodPull(0)));
  EXPECT_EQ(initial.parked_ns(), 0);
  ASSERT_OK(workers_[0]->Ask(GoodPush()));
  workers_[0]->Send(GoodPull(1));
  AwaitParked(1);
  ASSERT_OK(workers_[1]->Ask(GoodPush()));
  ASSERT_OK_AND_ASSIGN(const ParameterAnswer answer, workers_[0]->Receive());
  EXPECT_GT(answer.parked_ns(), 0);
  EXPECT_EQ(answer.released_by(), 1);
  EXPECT_EQ(answer.step(), 1);
  EXPECT_FALSE(answer.finished());
}

TEST_F(ParameterServiceTest, NobodyWaitsForAWorkerThatHasLeft) {
  Start();
  ASSERT_OK(workers_[0]->Ask(GoodInitialize()));
  ASSERT_OK(workers_[0]->Ask(GoodPush()));
  workers_[0]->Send(GoodPull(1));
  AwaitParked(1);
  ParameterRequest leave;
  leave.set_operation(ParameterRequest::LEAVE);
  ASSERT_OK(workers_[1]->Ask(leave));
  ASSERT_OK_AND_ASSIGN(const ParameterAnswer answer, workers_[0]->Receive());
  EXPECT_EQ(answer.version(), 1);
  EXPECT_EQ(answer.released_by(), 1);
  ASSERT_OK(workers_[1]->Ask(leave));
  EXPECT_THAT(workers_[1]->Ask(GoodPush()),
              StatusIs(kFailedPrecondition, HasSubstr("has left")));
}

TEST_F(ParameterServiceTest, SnapshotsAreKeptAndFetched) {
  Start();
  ASSERT_OK(workers_[0]->Ask(GoodInitialize()));
  ParameterRequest request;
  request.set_operation(ParameterRequest::SNAPSHOT);
  request.set_slot(5);
  request.set_step(kSteps);
  ASSERT_OK_AND_ASSIGN(const ParameterAnswer now, workers_[1]->Ask(request));
  EXPECT_EQ(now.version(), 0) << "as it is, where the run is not so far";
  for (int64_t step = 0; step < kSteps; ++step) {
    ParameterRequest push = GoodPush();
    push.set_step(step);
    push.set_version(step);
    for (const auto& worker : workers_) ASSERT_OK(worker->Ask(push));
  }
  ASSERT_OK_AND_ASSIGN(const ParameterAnswer last, workers_[1]->Ask(request));
  EXPECT_EQ(last.version(), kSteps);
  EXPECT_GT(last.time_ns(), 0);
  EXPECT_THAT(FloatsOf(last.payload()), ElementsAre(-9, -8, -7));
  EXPECT_EQ(shard_->traffic().snapshot_out, 24);
  request.set_step(1);
  EXPECT_THAT(workers_[1]->Ask(request),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("no snapshot of step 1")));
}

TEST_F(ParameterServiceTest, AStalledPullIsAnsweredWithTheNamesOfTheMissing) {
  Start(/*count=*/3, /*stall_timeout=*/absl::Milliseconds(1));
  ASSERT_OK(workers_[0]->Ask(GoodInitialize()));
  ASSERT_OK(workers_[0]->Ask(GoodPush()));
  const absl::Status status = workers_[0]->Ask(GoodPull(1)).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                               AllOf(HasSubstr("slot 5, pulled by rank 0 for step 1"),
                                     HasSubstr("waits for the push of worker 1"))));
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kPeerLost);
  EXPECT_EQ(shard_->parked_pulls(), 0);
}

TEST_F(ParameterServiceTest, AnAbortReachesParkedPullsWithItsExitCode) {
  Start();
  workers_[0]->Send(GoodPull(0));
  AwaitParked(1);
  shard_->Abort(CheckFailedError("replicas differ"));
  const absl::Status status = workers_[0]->Receive().status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss, "replicas differ"));
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kCheckFailed);
}

TEST_F(ParameterServiceTest, ShutdownAnswersParkedPullsEndsStreamsAndReturns) {
  Start();
  workers_[0]->Send(GoodPull(0));
  AwaitParked(1);
  std::thread shutdown([&] { host_->Shutdown(absl::InfiniteDuration()); });
  const auto is_shutdown =
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("shutting down"));
  EXPECT_THAT(workers_[0]->Receive(), is_shutdown);  // The pull's.
  EXPECT_THAT(workers_[0]->Receive(), is_shutdown);  // The stream's.
  shutdown.join();
  host_->Shutdown(absl::ZeroDuration());
}

TEST_F(ParameterServiceTest, AnAddressInUseIsAnError) {
  Start();
  ParameterServerHost second({.job = "job"}, shard_);
  EXPECT_THAT(second.Start(absl::StrCat("127.0.0.1:", port_)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("cannot listen at")));
}

}  // namespace
}  // namespace psring
