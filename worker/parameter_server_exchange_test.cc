// The exchange against a channel that answers when the test says so.
#include "worker/parameter_server_exchange.h"

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "common/status_matchers.h"
#include "common/time_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::HasSubstr;

// Keeps every pull and exchange until the test ends it, Abort or not: like a network that
// still winds up a call after its cancellation. The tests make no other requests.
class HoldingChannel final : public ParameterChannel {
 public:
  using Request = std::function<void(const absl::StatusOr<Pulled>&)>;
  struct Held {
    Mutex mutex;
    std::vector<Request> pulls ABSL_GUARDED_BY(mutex);  // And exchanges.
    bool aborted ABSL_GUARDED_BY(mutex) = false;
    CondVar changed;
  };

  explicit HoldingChannel(Held* held) : held_(held) {}

  void Initialize(const Slot&, std::span<const float>, Done) override { ADD_FAILURE(); }
  void Pull(const Slot&, int64_t, std::span<float>, PullDone done) override {
    MutexLock lock(&held_->mutex);
    held_->pulls.push_back(done);
    held_->changed.NotifyAll();
  }
  void Exchange(const Slot& slot, int64_t step, int64_t, std::span<const float>,
                std::span<float> parameters, PullDone done) override {
    Pull(slot, step + 1, parameters, done);
  }
  void Snapshot(const Slot&, int64_t, std::span<float>, SnapshotDone) override {
    ADD_FAILURE();
  }
  void Leave(Done) override { ADD_FAILURE(); }
  void Abort(const absl::Status&) override {
    MutexLock lock(&held_->mutex);
    held_->aborted = true;
    held_->changed.NotifyAll();
  }

 private:
  Held* const held_;
};

// Each look at it takes a second, and can be waited for.
class CountedTime final : public TimeSource {
 public:
  absl::Duration Elapsed() const override {
    MutexLock lock(&mutex_);
    ++looks_;
    looked_.NotifyAll();
    return absl::Seconds(looks_);
  }
  void AwaitLooks(int looks) const {
    MutexLock lock(&mutex_);
    while (looks_ < looks) looked_.Wait(&mutex_);
  }

 private:
  mutable Mutex mutex_;
  mutable CondVar looked_;
  mutable int looks_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Two slots in two buckets, on one server.
class HeldExchangeTest : public testing::Test {
 protected:
  HeldExchangeTest() : buckets_(Buckets()) {
    std::vector<std::unique_ptr<ParameterChannel>> channels;
    channels.push_back(std::make_unique<HoldingChannel>(&held_));
    exchange_ = std::make_unique<ParameterServerExchange>(
        /*rank=*/1, PlanStripedSlots(buckets_, 1), std::move(channels), &time_);
  }
  static BucketPlan Buckets() {
    ParameterLayout layout;
    layout.Add("first", {4});
    layout.Add("last", {4});
    return PlanBuckets(layout, /*cap_bytes=*/4, /*first_cap_bytes=*/4);
  }
  absl::Status Bind() {
    const DeviceSpan span{.data = values_.data(), .count = 8};
    return exchange_->Bind(span, span);
  }
  // The requests that are there, when there are two.
  std::vector<HoldingChannel::Request> TakePulls() {
    MutexLock lock(&held_.mutex);
    while (held_.pulls.size() < 2) held_.changed.Wait(&held_.mutex);
    return std::exchange(held_.pulls, {});
  }
  void AwaitAborted() {
    MutexLock lock(&held_.mutex);
    while (!held_.aborted) held_.changed.Wait(&held_.mutex);
  }

  const BucketPlan buckets_;
  HoldingChannel::Held held_;
  CountedTime time_;
  std::vector<float> values_ = std::vector<float>(8);
  std::unique_ptr<ParameterServerExchange> exchange_;
};

TEST_F(HeldExchangeTest, AnErrorReturnsOnlyWhenNoRequestUsesTheBuffers) {
  std::atomic<bool> all_ended = false;
  std::thread trainer([&] {
    EXPECT_THAT(Bind(), StatusIs(absl::StatusCode::kAborted, "first"));
    EXPECT_TRUE(all_ended);
  });
  const auto requests = TakePulls();
  requests[0](absl::AbortedError("first"));
  AwaitAborted();
  all_ended = true;
  requests[1](absl::CancelledError("second"));
  trainer.join();
}

TEST_F(HeldExchangeTest, ASlotIsAwaitedAndItsPayloadUncountedUntilItIsAnswered) {
  std::thread trainer([&] { EXPECT_OK(Bind()); });
  for (const auto& pull : TakePulls()) pull(Pulled{});
  trainer.join();
  EXPECT_EQ(exchange_->traffic().initial_in, 32);
  for (const Bucket& bucket : buckets_.buckets) {
    ASSERT_OK(exchange_->Launch(0, bucket, ReadyEvent::Happened()));
  }
  const auto pulls = TakePulls();
  EXPECT_EQ(exchange_->traffic().payload_out, 0);
  EXPECT_EQ(exchange_->Awaited(), "slot 0 (bucket 0) of server 0");
  pulls[0](Pulled{.version = 1, .step = 1});
  EXPECT_EQ(exchange_->traffic().payload_out, 16);
  EXPECT_EQ(exchange_->traffic().payload_in, 16);
  EXPECT_EQ(exchange_->Awaited(), "slot 1 (bucket 1) of server 0");
  pulls[1](absl::AbortedError("refused"));
  EXPECT_EQ(exchange_->traffic().payload_out, 16);
  EXPECT_EQ(exchange_->Awaited(), "");
  EXPECT_THAT(exchange_->Finish(0), StatusIs(absl::StatusCode::kAborted, "refused"));
}

// Of a step in which `last` is the answer that comes last, in the third second of Finish.
class PeerLateTest : public HeldExchangeTest {
 protected:
  StepReport StepThatEndsWith(const Pulled& last) {
    std::thread trainer([&] { EXPECT_OK(Bind()); });
    for (const auto& pull : TakePulls()) pull(Pulled{});  // Looks at the time twice.
    trainer.join();
    for (const Bucket& bucket : buckets_.buckets) {
      EXPECT_OK(exchange_->Launch(0, bucket, ReadyEvent::Happened()));
    }
    StepReport report;
    std::thread finisher([&] {
      absl::StatusOr<StepReport> finished = exchange_->Finish(0);
      EXPECT_OK(finished);
      if (finished.ok()) report = *finished;
    });
    time_.AwaitLooks(3);  // Finish has begun.
    const auto pulls = TakePulls();
    pulls[0](Pulled{.version = 1, .step = 1, .parked = absl::Hours(1), .released_by = 3});
    (void)time_.Elapsed();
    pulls[1](last);
    finisher.join();
    return report;
  }
};

TEST_F(PeerLateTest, IsHowLongTheLastAnswerWasKeptBackAndForWhom) {
  const StepReport report = StepThatEndsWith(
      {.version = 1, .step = 1, .parked = absl::Seconds(2), .released_by = 2});
  EXPECT_EQ(report.peer_late, absl::Seconds(2));
  EXPECT_EQ(report.waited_for, 2);
}

TEST_F(PeerLateTest, IsNoMoreThanFinishHasTaken) {
  const StepReport report = StepThatEndsWith(
      {.version = 1, .step = 1, .parked = absl::Hours(2), .released_by = 2});
  EXPECT_EQ(report.peer_late, absl::Seconds(3));
}

TEST_F(PeerLateTest, IsNothingWhereTheLastAnswerWasNotKeptBackForAnother) {
  const StepReport report = StepThatEndsWith({.version = 1, .step = 1});
  EXPECT_EQ(report.peer_late, absl::ZeroDuration());
  EXPECT_EQ(report.waited_for, std::nullopt);
}

TEST_F(HeldExchangeTest, AnAnswerForAStepBeforeIsAnError) {
  std::thread trainer([&] { EXPECT_OK(Bind()); });
  for (const auto& pull : TakePulls()) pull(Pulled{});
  trainer.join();
  for (const Bucket& bucket : buckets_.buckets) {
    ASSERT_OK(exchange_->Launch(0, bucket, ReadyEvent::Happened()));
  }
  for (const auto& pull : TakePulls()) pull(Pulled{.version = 1, .step = 0});
  EXPECT_THAT(exchange_->Finish(0),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("slot 0 for step 1 and answered with step 0")));
}

}  // namespace
}  // namespace psring
