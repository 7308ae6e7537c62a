// A worker's stream: who may have one, what ends it, and what that leaves to the others.
#include "server/parameter_stream.h"

#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/computed_step_constants.h"
#include "common/status_matchers.h"
#include "common/wire_message.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "server/parameter_service_test_util.h"
#include "server/policies.h"
#include "server/queue_event.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kFailedPrecondition = absl::StatusCode::kFailedPrecondition;

using ParameterStreamTest = ParameterServiceTest;

TEST_F(ParameterStreamTest, RefusesWorkersThatDoNotBelongHere) {
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

TEST_F(ParameterStreamTest, AMalformedMessageEndsItsStreamAndNoOther) {
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

TEST_F(ParameterStreamTest, AGradientThatIsNoneOnThisWireEndsItsStreamAndNoOther) {
  Wire wire;
  wire.mutable_int8();
  Start(/*count=*/3, absl::InfiniteDuration(), wire);
  ASSERT_OK(workers_[0]->Ask(GoodInitialize()));
  ParameterRequest push = GoodPush();
  const auto is_refused = [](const std::string& part) {
    return StatusIs(kInvalidArgument,
                    AllOf(HasSubstr("'s push to slot 5, step 0: a gradient "),
                          HasSubstr(part), testing::Not(HasSubstr("\n"))));
  };
  EXPECT_THAT(EndAfter(push.SerializeAsString()),
              is_refused("of 3 elements as int8 has 7 bytes, and here are 12"));
  push.set_payload(PayloadOf({std::numeric_limits<float>::infinity()}) + "abc");
  EXPECT_THAT(EndAfter(push.SerializeAsString()), is_refused("a scale of inf"));
  EXPECT_EQ(shard_->traffic().payload_in, 0);
  push.set_payload(PayloadOf({0.5f}) + std::string("\x02\xfe\x00", 3));
  EXPECT_OK(workers_[0]->Ask(push));
  EXPECT_EQ(shard_->traffic().payload_in, 7);
}

TEST_F(ParameterStreamTest, AMessageLargerThanAnySlotIsNotReceived) {
  Start();
  ParameterRequest push = GoodPush();
  push.set_payload(std::string(3 * sizeof(float) + kMaxHeaderBytes + 1, 'x'));
  EXPECT_THAT(workers_[0]->Ask(push),
              StatusIs(absl::StatusCode::kResourceExhausted, testing::_));
}

TEST_F(ParameterStreamTest, AWorkerThatGoesFreesWhatItParked) {
  Start();
  ASSERT_OK(workers_[0]->Ask(GoodInitialize()));
  workers_[0]->Send(GoodPull(1));
  workers_[0]->Send(GoodPull(1));
  AwaitParked(2);
  workers_[0]->Cancel();
  AwaitParked(0);
}

TEST_F(ParameterStreamTest, AWorkerThatSendsNoMoreStillGetsItsAnswers) {
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

TEST_F(ParameterStreamTest, OfAWorkerWithTooManyRequestsTheRestWaitsUnread) {
  constexpr int kPulls = 100;
  Start();
  ASSERT_OK(workers_[0]->Ask(GoodInitialize()));
  for (int i = 0; i < kPulls; ++i) workers_[0]->Send(GoodPull(1));
  AwaitParked(2);  // Whose answers are twice all that the server has.
  // A push behind them is not read, so the round stays open until another stream closes
  // it; then everything is answered.
  workers_[0]->Send(GoodPush());
  const auto again = NewClient(HelloOf(0).SerializeAsString());
  ASSERT_OK(again->Ask(GoodPush()));
  ASSERT_OK(workers_[1]->Ask(GoodPush()));
  for (int i = 0; i < kPulls + 1; ++i) ASSERT_OK(workers_[0]->Receive());
}

TEST_F(ParameterStreamTest, ANewIncarnationOfARankTakesThePlaceOfTheOld) {
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

// Where several threads take events, one may hear that a call has come, and another
// before it has done anything about it that the call is over.
TEST_F(ParameterStreamTest, KnowsOfACallThatIsOverBeforeItIsServed) {
  ParameterShard::Options shard_options;
  shard_options.workers = 1;
  shard_options.constants =
      std::make_shared<ComputedStepConstants>(shard_options.optimizer, kSteps);
  shard_options.time = &time_;
  ASSERT_OK_AND_ASSIGN(auto policy, MakePolicy(ParameterServerMode(), /*workers=*/1));
  bool called = false, closed = false;
  ParameterStream::Options options;
  options.shard =
      std::make_shared<ParameterShard>(std::move(shard_options), std::move(policy));
  options.closed = [&](ParameterStream*) { closed = true; };
  ParameterStream::Service service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const auto queue = builder.AddCompletionQueue();
  const auto server = builder.BuildAndStart();
  const auto take_event = [&] {
    void* tag = nullptr;
    bool ok = false;
    const bool taken = queue->Next(&tag, &ok);
    if (taken) QueueEvent::Of(tag)->Run(ok);
    return taken;
  };
  {
    const auto stream = std::make_shared<ParameterStream>(&options, queue.get());
    stream->Await(&service, [&](bool ok) { called = ok; });
    Client client(grpc::CreateChannel(absl::StrCat("127.0.0.1:", port),
                                      grpc::InsecureChannelCredentials()),
                  HelloOf(0).SerializeAsString());
    while (!called) ASSERT_TRUE(take_event());
    client.Cancel();
    while (!closed) ASSERT_TRUE(take_event());
    EXPECT_FALSE(stream->Serve());
  }
  server->Shutdown();
  queue->Shutdown();
  while (take_event()) {
  }
}

// The first answer is on its way, and no more fits as long as the worker does not read.
TEST_F(ParameterStreamTest, OfAnswersThatWaitTheOneThatIsNeededFirstGoesFirst) {
  constexpr int64_t kCount = 64 << 10;
  for (int i = 1; i < 4; ++i) {
    more_slots_.push_back({.index = 5 + i,
                           .bucket = 0,
                           .server = 0,
                           .range = {.begin = i * kCount, .count = kCount}});
  }
  Start(kCount);
  for (int slot = 5; slot < 9; ++slot) {
    ASSERT_OK(shard_->Initialize(slot, std::vector<float>(kCount, 1.0f)));
  }
  int64_t sent = 0;
  for (const int slot : {8, 7, 6, 5, 8}) {
    ParameterRequest pull = GoodPull(0);
    pull.set_slot(slot);
    workers_[0]->Send(pull);
    ++sent;
  }
  // The last one has been handled, so the answers of the others are in the queue.
  const int64_t bytes = sent * kCount * int64_t{sizeof(float)};
  while (shard_->traffic().initial_out < bytes) std::this_thread::yield();
  std::vector<uint64_t> order;
  while (sent-- > 0) {
    ASSERT_OK_AND_ASSIGN(const ParameterAnswer answer, workers_[0]->Receive());
    order.push_back(answer.id());
  }
  EXPECT_THAT(order, ElementsAre(1, 4, 3, 2, 5));
}

}  // namespace
}  // namespace psring
