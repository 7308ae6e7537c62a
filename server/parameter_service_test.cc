// The service as any gRPC client sees it: requests, their answers, and its end.
#include "server/parameter_service.h"

#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/parameter_service_test_util.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kFailedPrecondition = absl::StatusCode::kFailedPrecondition;

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
