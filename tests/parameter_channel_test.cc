// What every parameter channel must do: the same suite for each implementation. A new
// one adds a line to INSTANTIATE_TEST_SUITE_P.
#include "worker/parameter_channel.h"

#include <cmath>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/computed_step_constants.h"
#include "common/errors.h"
#include "common/status_matchers.h"
#include "common/time_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/policies.h"
#include "tests/parameter_server_cluster.h"
#include "worker/grpc_parameter_channel.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// A request's outcome, given once: a second time throws.
template <typename T>
class Outcome {
 public:
  std::function<void(const T&)> callback() {
    return [this](const T& value) { promise_.set_value(value); };
  }
  T Get() { return promise_.get_future().get(); }

 private:
  std::promise<T> promise_;
};

class ParameterChannelTest : public testing::TestWithParam<ChannelKind> {
 protected:
  static constexpr int kWorkers = 2;
  static constexpr int64_t kSteps = 4;

  ParameterChannelTest() {
    ParameterLayout layout;
    layout.Add("only", {3});
    options_.kind = GetParam();
    options_.buckets = PlanBuckets(layout, /*cap_bytes=*/64, /*first_cap_bytes=*/64);
    options_.workers = kWorkers;
    options_.optimizer.mutable_sgd()->set_learning_rate(1);
    options_.steps = kSteps;
    options_.snapshot_interval = 2;
    cluster_ = std::make_unique<ParameterServerCluster>(options_);
    for (int rank = 0; rank < kWorkers; ++rank) {
      channels_.push_back(cluster_->NewChannel(rank, /*server=*/0));
    }
  }

  const Slot& slot() const { return cluster_->plan().slots[0]; }
  absl::Status Initialize(const std::vector<float>& parameters) {
    Outcome<absl::Status> outcome;
    channels_[0]->Initialize(slot(), parameters, outcome.callback());
    return outcome.Get();
  }
  absl::Status Leave(int rank) {
    Outcome<absl::Status> outcome;
    channels_[rank]->Leave(outcome.callback());
    return outcome.Get();
  }
  absl::StatusOr<SnapshotInfo> Snapshot(int rank, int64_t step,
                                        std::vector<float>* parameters) {
    Outcome<absl::StatusOr<SnapshotInfo>> outcome;
    channels_[rank]->Snapshot(slot(), step, *parameters, outcome.callback());
    return outcome.Get();
  }
  absl::StatusOr<Pulled> Pull(int rank, int64_t step, std::vector<float>* parameters) {
    Outcome<absl::StatusOr<Pulled>> outcome;
    channels_[rank]->Pull(slot(), step, *parameters, outcome.callback());
    return outcome.Get();
  }
  // An exchange on its way, with the memory that it uses.
  struct Exchange {
    std::vector<float> gradient;
    std::vector<float> parameters;
    Outcome<absl::StatusOr<Pulled>> outcome;
  };
  std::unique_ptr<Exchange> StartExchange(int rank, int64_t step,
                                          std::vector<float> gradient) {
    auto exchange = std::make_unique<Exchange>();
    exchange->gradient = std::move(gradient);
    exchange->parameters.resize(exchange->gradient.size());
    // Synchronous servers: what a step computes with is the version of its number.
    channels_[rank]->Exchange(slot(), step, /*version=*/step,
                              std::as_bytes(std::span(exchange->gradient)),
                              exchange->parameters, exchange->outcome.callback());
    return exchange;
  }
  void AwaitParked(int64_t count) {
    while (cluster_->parked_pulls() != count) std::this_thread::yield();
  }

  ParameterServerCluster::Options options_;
  std::unique_ptr<ParameterServerCluster> cluster_;
  std::vector<std::unique_ptr<ParameterChannel>> channels_;
};

TEST_P(ParameterChannelTest, APullBringsWhatWasInitialized) {
  ASSERT_OK(Initialize({1.5f, -0.0f, 3}));
  for (int rank = 0; rank < kWorkers; ++rank) {
    std::vector<float> parameters(3);
    ASSERT_OK_AND_ASSIGN(const Pulled pulled, Pull(rank, 0, &parameters));
    EXPECT_EQ(pulled.version, 0);
    EXPECT_EQ(pulled.step, 0);
    EXPECT_FALSE(pulled.finished);
    EXPECT_THAT(parameters, ElementsAre(1.5f, 0, 3));
    EXPECT_TRUE(std::signbit(parameters[1]));
  }
}

TEST_P(ParameterChannelTest, AnExchangeWaitsForItsRound) {
  ASSERT_OK(Initialize({0, 0, 0}));
  const auto first = StartExchange(0, 0, {1, 2, 3});
  AwaitParked(1);
  const auto last = StartExchange(1, 0, {3, 2, 1});
  ASSERT_OK_AND_ASSIGN(const Pulled waited, first->outcome.Get());
  EXPECT_EQ(waited.version, 1);
  EXPECT_EQ(waited.step, 1);
  EXPECT_GT(waited.parked, absl::ZeroDuration());
  EXPECT_EQ(waited.released_by, 1);
  EXPECT_GT(waited.working, absl::ZeroDuration());
  EXPECT_THAT(first->parameters, Each(-2));
  ASSERT_OK_AND_ASSIGN(const Pulled at_once, last->outcome.Get());
  EXPECT_EQ(at_once.version, 1);
  EXPECT_EQ(at_once.parked, absl::ZeroDuration());
  EXPECT_EQ(at_once.working, waited.working);
  EXPECT_THAT(last->parameters, Each(-2));
}

TEST_P(ParameterChannelTest, ARepeatedExchangeAddsNothingAndFetchesAgain) {
  ASSERT_OK(Initialize({0, 0, 0}));
  const auto first = StartExchange(0, 0, {1, 2, 3});
  AwaitParked(1);
  const auto repeated = StartExchange(0, 0, {9, 9, 9});
  AwaitParked(2);
  const auto last = StartExchange(1, 0, {3, 2, 1});
  const auto late = StartExchange(0, 0, {9, 9, 9});
  for (const auto& exchange : {&first, &repeated, &last, &late}) {
    ASSERT_OK_AND_ASSIGN(const Pulled pulled, (*exchange)->outcome.Get());
    EXPECT_EQ(pulled.version, 1);
    EXPECT_THAT((*exchange)->parameters, Each(-2));
  }
}

TEST_P(ParameterChannelTest, WhoeverLeavesIsNotWaitedFor) {
  ASSERT_OK(Initialize({0, 0, 0}));
  const auto exchange = StartExchange(0, 0, {1, 1, 1});
  AwaitParked(1);
  ASSERT_OK(Leave(1));
  ASSERT_OK_AND_ASSIGN(const Pulled pulled, exchange->outcome.Get());
  EXPECT_EQ(pulled.version, 1);
  EXPECT_EQ(pulled.released_by, 1);
  EXPECT_THAT(exchange->parameters, Each(-1));
  EXPECT_OK(Leave(1)) << "repeated";
  EXPECT_THAT(StartExchange(1, 1, {1, 1, 1})->outcome.Get(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has left")));
}

TEST_P(ParameterChannelTest, TheLastAnswerSaysThatTheRunIsOverAndSnapshotsAreThere) {
  ASSERT_OK(Initialize({0, 0, 0}));
  std::vector<float> parameters(3), kept(3);
  ASSERT_OK_AND_ASSIGN(const SnapshotInfo early, Snapshot(1, kSteps, &kept));
  EXPECT_EQ(early.version, 0) << "as it is, where the run is not so far";
  for (int rank = 0; rank < kWorkers; ++rank) ASSERT_OK(Pull(rank, 0, &parameters));
  for (int64_t step = 0; step < kSteps; ++step) {
    std::vector<std::unique_ptr<Exchange>> exchanges;
    for (int rank = 0; rank < kWorkers; ++rank) {
      exchanges.push_back(StartExchange(rank, step, {1, 2, 3}));
    }
    for (const auto& exchange : exchanges) {
      ASSERT_OK_AND_ASSIGN(const Pulled pulled, exchange->outcome.Get());
      EXPECT_EQ(pulled.finished, step + 1 == kSteps);
    }
  }
  for (int64_t step = 2; step <= kSteps; step += 2) {
    ASSERT_OK_AND_ASSIGN(const SnapshotInfo snapshot, Snapshot(0, step, &kept));
    EXPECT_EQ(snapshot.version, step);
    EXPECT_GT(snapshot.time, absl::ZeroDuration());
    EXPECT_THAT(kept, ElementsAre(-step, -2 * step, -3 * step));
  }
  EXPECT_THAT(Snapshot(0, 1, &kept),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("server 0 ("),
                             HasSubstr("the snapshot of slot 0 after step 1"))));
}

TEST_P(ParameterChannelTest, AnErrorNamesServerAndSlotAndKeepsItsCode) {
  EXPECT_THAT(
      StartExchange(1, 0, {1, 2, 3})->outcome.Get(),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("server 0 ("), HasSubstr("the exchange of slot 0, step 0"),
                     HasSubstr("is not initialized"))));
  EXPECT_THAT(Initialize({1, 2}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("the initialization of slot 0"),
                             HasSubstr("has 3 elements here"))));
  std::vector<float> parameters(3);
  EXPECT_THAT(Pull(0, -1, &parameters),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("the pull of slot 0 for step -1"),
                             HasSubstr("steps start at 0"))));
}

TEST_P(ParameterChannelTest, TheShardsAbortReachesWhatIsParkedWithItsExitCode) {
  ASSERT_OK(Initialize({0, 0, 0}));
  std::vector<float> parameters(3);
  Outcome<absl::StatusOr<Pulled>> outcome;
  channels_[1]->Pull(slot(), 2, parameters, outcome.callback());
  const auto exchange = StartExchange(0, 0, {1, 1, 1});
  AwaitParked(2);
  cluster_->shard(0).Abort(CheckFailedError("replicas differ"));
  for (const absl::Status& status :
       {outcome.Get().status(), exchange->outcome.Get().status()}) {
    EXPECT_THAT(status,
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("replicas differ")));
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kCheckFailed);
  }
}

TEST_P(ParameterChannelTest, AfterAbortEveryRequestIsDoneWithTheFirstReason) {
  ASSERT_OK(Initialize({0, 0, 0}));
  const auto parked = StartExchange(0, 0, {1, 1, 1});
  AwaitParked(1);
  channels_[0]->Abort(PeerLostError("worker 1 has died"));
  channels_[0]->Abort(absl::AbortedError("second"));

  const auto is_reason = StatusIs(absl::StatusCode::kUnavailable, "worker 1 has died");
  const absl::Status status = parked->outcome.Get().status();
  EXPECT_THAT(status, is_reason);
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kPeerLost);
  std::vector<float> parameters(3);
  EXPECT_THAT(Pull(0, 0, &parameters), is_reason);
  EXPECT_THAT(StartExchange(0, 0, {1, 1, 1})->outcome.Get(), is_reason);
  EXPECT_THAT(Leave(0), is_reason);
  EXPECT_THAT(Snapshot(0, kSteps, &parameters), is_reason);
  EXPECT_THAT(Initialize({1, 1, 1}), is_reason);
  // Nothing is left on the server, and the other worker's channel is as it was.
  AwaitParked(0);
  EXPECT_OK(Pull(1, 0, &parameters));
}

TEST_P(ParameterChannelTest, TheDestructorEndsWhatIsInFlight) {
  std::vector<float> parameters(3);
  Outcome<absl::StatusOr<Pulled>> outcome;
  channels_[0]->Pull(slot(), 0, parameters, outcome.callback());
  channels_[0].reset();
  EXPECT_THAT(outcome.Get(), StatusIs(absl::StatusCode::kCancelled, testing::_));
}

TEST_P(ParameterChannelTest, ManyRequestsAtOnceAndAnAbortAmongThem) {
  constexpr int kRequests = 100;
  ASSERT_OK(Initialize({0, 0, 0}));
  std::vector<std::vector<float>> parameters(kRequests, std::vector<float>(3));
  std::vector<Outcome<absl::StatusOr<Pulled>>> outcomes(kRequests);
  std::thread aborter;
  for (int i = 0; i < kRequests; ++i) {
    if (i == kRequests / 2) {
      aborter = std::thread([&] { channels_[0]->Abort(absl::AbortedError("end")); });
    }
    channels_[0]->Pull(slot(), /*step=*/1, parameters[i], outcomes[i].callback());
  }
  for (auto& outcome : outcomes) {
    EXPECT_THAT(outcome.Get(), StatusIs(absl::StatusCode::kAborted, "end"));
  }
  aborter.join();
  AwaitParked(0);
}

INSTANTIATE_TEST_SUITE_P(All, ParameterChannelTest,
                         testing::Values(ChannelKind::kInProcess, ChannelKind::kGrpc,
                                         ChannelKind::kDelayed),
                         [](const auto& info) { return ChannelKindName(info.param); });

// What only a network can do.
class GrpcParameterChannelTest : public testing::Test {
 protected:
  GrpcParameterChannelTest() {
    ParameterShard::Options options;
    options.slots = {slot_};
    options.bucket_ranges = {slot_.range};
    options.workers = 1;
    options.optimizer.mutable_sgd()->set_learning_rate(1);
    options.constants =
        std::make_shared<ComputedStepConstants>(options.optimizer, /*steps=*/10);
    options.time = &time_;
    auto policy = MakePolicy(ParameterServerMode(), /*workers=*/1);
    EXPECT_OK(policy);
    shard_ = std::make_shared<ParameterShard>(options, *std::move(policy));
    host_ = std::make_unique<ParameterServerHost>(
        ParameterServerHost::Options{.job = "test", .fingerprint = 0xab}, shard_);
    const absl::StatusOr<int> port = host_->Start("127.0.0.1:0");
    EXPECT_OK(port);
    address_ = absl::StrCat("127.0.0.1:", *port);
  }
  std::unique_ptr<ParameterChannel> NewChannel(std::string job, absl::Duration timeout,
                                               uint64_t fingerprint = 0xab) {
    return NewGrpcParameterChannel({.job = std::move(job),
                                    .rank = 0,
                                    .fingerprint = fingerprint,
                                    .server = 4,
                                    .address = address_,
                                    .stall_timeout = timeout});
  }
  absl::StatusOr<Pulled> Pull(ParameterChannel& channel, const Slot& slot, int64_t step) {
    std::vector<float> parameters(slot.range.count);
    Outcome<absl::StatusOr<Pulled>> outcome;
    channel.Pull(slot, step, parameters, outcome.callback());
    return outcome.Get();
  }

  const Slot slot_ = {
      .index = 7, .bucket = 0, .server = 0, .range = {.begin = 0, .count = 2}};
  const RealTime time_;
  std::shared_ptr<ParameterShard> shard_;
  std::unique_ptr<ParameterServerHost> host_;
  std::string address_;
};

TEST_F(GrpcParameterChannelTest, AStallIsALostPeerAndSaysWhatWasAwaited) {
  const auto channel = NewChannel("test", absl::Milliseconds(20));
  const absl::Status status = Pull(*channel, slot_, 3).status();
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kUnavailable,
                       absl::StrCat("server 4 (", address_,
                                    "): the pull of slot 7 for step 3: no answer within "
                                    "20ms")));
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kPeerLost);
}

TEST_F(GrpcParameterChannelTest, AServerThatGoesIsALostPeerAtOnce) {
  const auto channel = NewChannel("test", absl::Hours(1));
  ASSERT_OK(shard_->Initialize(7, std::vector<float>{1, 2}));
  ASSERT_OK(Pull(*channel, slot_, 0));
  host_.reset();
  const absl::Status status = Pull(*channel, slot_, 1).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                               AllOf(HasSubstr(absl::StrCat("server 4 (", address_, ")")),
                                     HasSubstr("the pull of slot 7 for step 1"))));
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kPeerLost);
}

TEST_F(GrpcParameterChannelTest, AnAnswerOfAnotherSizeIsAnErrorAndWritesNothing) {
  const auto channel = NewChannel("test", absl::Hours(1));
  ASSERT_OK(shard_->Initialize(7, std::vector<float>{1, 2}));
  Slot larger = slot_;
  larger.range.count = 3;
  std::vector<float> parameters(3, 9);
  Outcome<absl::StatusOr<Pulled>> outcome;
  channel->Pull(larger, 0, parameters, outcome.callback());
  EXPECT_THAT(outcome.Get(),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("the answer has 8 bytes, the slot has 12 here")));
  EXPECT_THAT(parameters, Each(9));
}

TEST_F(GrpcParameterChannelTest, AServerOfAnotherJobRefuses) {
  const auto channel = NewChannel("other", absl::Hours(1));
  EXPECT_THAT(Pull(*channel, slot_, 0),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("this server is of job \"test\", the worker of "
                                 "\"other\"")));
}

TEST_F(GrpcParameterChannelTest, AServerOfAnotherConfigurationRefusesAndShowsBoth) {
  const auto channel = NewChannel("test", absl::Hours(1), /*fingerprint=*/0xcd);
  EXPECT_THAT(Pull(*channel, slot_, 0),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("server 4 ("), HasSubstr("00000000000000cd there"),
                             HasSubstr("00000000000000ab here"))));
}

}  // namespace
}  // namespace psring
