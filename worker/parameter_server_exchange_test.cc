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

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
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
class HoldingChannel : public ParameterChannel {
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
  void Exchange(const Slot& slot, int64_t step, int64_t, Bytes,
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

// Answers what it holds in the caller's thread, as far as it is driven.
class LendingChannel final : public HoldingChannel {
 public:
  explicit LendingChannel(Held* held) : HoldingChannel(held), held_(held) {}

  // Requests that were there when it was lent; before it is.
  static constexpr int kNotLent = -1;
  int lent_at() const { return lent_at_; }
  int drives() const { return drives_; }

  void Lend() override {
    MutexLock lock(&held_->mutex);
    EXPECT_EQ(lent_at_, kNotLent);
    lent_at_ = static_cast<int>(held_->pulls.size());
  }
  void Drive(absl::FunctionRef<bool()> done) override {
    EXPECT_FALSE(done());
    std::vector<Request> pulls;
    {
      MutexLock lock(&held_->mutex);
      pulls.swap(held_->pulls);
    }
    for (const Request& pull : pulls) pull(Pulled{.version = 1, .step = 1});
    EXPECT_TRUE(done());
    ++drives_;
  }

 private:
  Held* const held_;
  int lent_at_ = kNotLent;
  int drives_ = 0;
};

TEST_F(HeldExchangeTest, TheTrainersThreadDrivesWhatItAwaits) {
  auto lending = std::make_unique<LendingChannel>(&held_);
  const LendingChannel& channel = *lending;
  std::vector<std::unique_ptr<ParameterChannel>> channels;
  channels.push_back(std::move(lending));
  exchange_ = std::make_unique<ParameterServerExchange>(
      /*rank=*/1, PlanStripedSlots(buckets_, 1), std::move(channels), &time_);
  std::thread trainer([&] { EXPECT_OK(Bind()); });
  for (const auto& pull : TakePulls()) pull(Pulled{});
  trainer.join();
  for (const Bucket& bucket : buckets_.buckets) {
    EXPECT_EQ(channel.lent_at(), LendingChannel::kNotLent);
    ASSERT_OK(exchange_->Launch(0, bucket, ReadyEvent::Happened()));
  }
  // With the last bucket, before its request.
  EXPECT_EQ(channel.lent_at(), 1);
  EXPECT_EQ(channel.drives(), 0);
  ASSERT_OK(exchange_->Finish(0));
  EXPECT_EQ(channel.drives(), 1);
}

// Each server works on its slots one after the other, and the servers do at the same
// time.
TEST_F(HeldExchangeTest, WorkingIsThatOfTheBusiestServer) {
  std::vector<std::unique_ptr<ParameterChannel>> channels;
  for (int server = 0; server < 2; ++server) {
    channels.push_back(std::make_unique<HoldingChannel>(&held_));
  }
  SlotPlan plan = PlanStripedSlots(buckets_, 2);
  ASSERT_EQ(plan.slots.size(), 4);
  exchange_ = std::make_unique<ParameterServerExchange>(/*rank=*/1, plan,
                                                        std::move(channels), &time_);
  const auto take = [&] {
    auto pulls = TakePulls();
    while (pulls.size() < 4) {
      for (auto& pull : TakePulls()) pulls.push_back(std::move(pull));
    }
    return pulls;
  };
  std::thread trainer([&] { EXPECT_OK(Bind()); });
  for (const auto& pull : take()) pull(Pulled{.working = absl::Hours(1)});
  trainer.join();
  for (const Bucket& bucket : buckets_.buckets) {
    ASSERT_OK(exchange_->Launch(0, bucket, ReadyEvent::Happened()));
  }
  int64_t seconds = 0;  // Bucket 0: 1 and 2; bucket 1: 3 and 4.
  for (const auto& pull : take()) {
    pull(Pulled{.version = 1, .step = 1, .working = absl::Seconds(++seconds)});
  }
  ASSERT_OK_AND_ASSIGN(const StepReport report, exchange_->Finish(0));
  EXPECT_THAT(report.bucket_working,
              testing::ElementsAre(absl::Seconds(2), absl::Seconds(4)));
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

TEST_F(PeerLateTest, IsTheLongestThatAnAnswerWasKeptBackAndForWhom) {
  const StepReport report = StepThatEndsWith(
      {.version = 1, .step = 1, .parked = absl::Seconds(2), .released_by = 2});
  EXPECT_EQ(report.peer_late, absl::Seconds(2));
  EXPECT_EQ(report.waited_for, 2);
}

// The first answer was kept back, too, and comes a second after Finish has begun.
TEST_F(PeerLateTest, IsNotOfTheLastAnswerAlone) {
  const StepReport report = StepThatEndsWith({.version = 1, .step = 1});
  EXPECT_EQ(report.peer_late, absl::Seconds(1));
  EXPECT_EQ(report.waited_for, 3);
}

TEST_F(PeerLateTest, IsNoMoreThanFinishHasTaken) {
  const StepReport report = StepThatEndsWith(
      {.version = 1, .step = 1, .parked = absl::Hours(2), .released_by = 2});
  EXPECT_EQ(report.peer_late, absl::Seconds(3));
}

TEST_F(PeerLateTest, LeavesOutTheWayBack) {
  const StepReport report = StepThatEndsWith({.version = 1,
                                              .step = 1,
                                              .parked = absl::Hours(2),
                                              .released_by = 2,
                                              .delayed = absl::Seconds(1)});
  EXPECT_EQ(report.peer_late, absl::Seconds(2));
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

// Six slots in six buckets, one and a half times what a window holds, on each server.
class WindowTest : public testing::Test {
 protected:
  static constexpr int kSlots = 6;
  static constexpr int64_t kSlotCount = 4;

  void Start(int servers) {
    ParameterLayout layout;
    for (int slot = 0; slot < kSlots; ++slot) {
      layout.Add(absl::StrCat("tensor", slot), {servers * kSlotCount});
    }
    buckets_ = PlanBuckets(layout, /*cap_bytes=*/4, /*first_cap_bytes=*/4);
    held_ = std::vector<HoldingChannel::Held>(servers);
    std::vector<std::unique_ptr<ParameterChannel>> channels;
    for (HoldingChannel::Held& held : held_) {
      channels.push_back(std::make_unique<HoldingChannel>(&held));
    }
    exchange_ = std::make_unique<ParameterServerExchange>(
        /*rank=*/1, PlanStripedSlots(buckets_, servers), std::move(channels), &time_,
        /*local_server=*/std::nullopt, /*window_bytes=*/4 * kSlotCount * 4);
    values_.resize(layout.count());
    std::thread trainer([&] {
      const DeviceSpan span{.data = values_.data(), .count = layout.count()};
      EXPECT_OK(exchange_->Bind(span, span));
    });
    for (int server = 0; server < servers; ++server) {
      for (const auto& pull : Take(server, kSlots)) pull(Pulled{});
    }
    trainer.join();
  }
  void LaunchAll() {
    for (const Bucket& bucket : buckets_.buckets) {
      EXPECT_OK(exchange_->Launch(0, bucket, ReadyEvent::Happened()));
    }
  }
  // The server's requests, when there are so many.
  std::vector<HoldingChannel::Request> Take(int server, size_t requests) {
    HoldingChannel::Held& held = held_[server];
    MutexLock lock(&held.mutex);
    while (held.pulls.size() < requests) held.changed.Wait(&held.mutex);
    EXPECT_EQ(held.pulls.size(), requests);
    return std::exchange(held.pulls, {});
  }

  BucketPlan buckets_;
  std::vector<HoldingChannel::Held> held_;
  CountedTime time_;
  std::vector<float> values_;
  std::unique_ptr<ParameterServerExchange> exchange_;
};

TEST_F(WindowTest, SlotsBehindItGoOneByOneAsAnswersCome) {
  const Pulled answer{.version = 1, .step = 1};
  Start(/*servers=*/1);
  LaunchAll();
  const auto first = Take(0, 4);
  first[2](answer);
  Take(0, 1)[0](answer);
  Take(0, 1)[0](answer);
  Take(0, 0);
  EXPECT_EQ(exchange_->Awaited(), "slot 0 (bucket 0) of server 0");
  for (const int slot : {0, 1, 3}) first[slot](answer);
  EXPECT_OK(exchange_->Finish(0));
  EXPECT_EQ(exchange_->traffic().payload_out, kSlots * kSlotCount * 4);
}

TEST_F(WindowTest, HoldsSomeSlotsOfAnySize) {
  Start(/*servers=*/1);
  const SlotPlan plan = PlanStripedSlots(buckets_, 1);
  EXPECT_EQ(ParameterServerExchange::WindowBytes(plan, /*workers=*/2, 0), 512 << 10);
  EXPECT_EQ(ParameterServerExchange::WindowBytes(plan, 8, 0), 128 << 10);
  EXPECT_EQ(ParameterServerExchange::WindowBytes(plan, 2, 1000), (512 << 10) + 1000);
  ParameterLayout large;
  large.Add("tensor", {1 << 20});
  const int64_t slot_bytes = kMaxSlotBytes;
  EXPECT_EQ(ParameterServerExchange::WindowBytes(
                PlanStripedSlots(PlanBuckets(large, 4, 4), 1), 2, 0),
            4 * slot_bytes);
}

TEST_F(WindowTest, IsNewInEveryStep) {
  Start(/*servers=*/1);
  for (int step = 0; step < 2; ++step) {
    for (const Bucket& bucket : buckets_.buckets) {
      EXPECT_OK(exchange_->Launch(step, bucket, ReadyEvent::Happened()));
    }
    for (const size_t more : {4, 2}) {
      for (const auto& pull : Take(0, more)) pull(Pulled{.version = 1, .step = step + 1});
    }
    EXPECT_OK(exchange_->Finish(step));
  }
}

TEST_F(WindowTest, IsEachServersOwn) {
  const Pulled answer{.version = 1, .step = 1};
  Start(/*servers=*/2);
  LaunchAll();
  const auto of_first = Take(0, 4);
  for (const auto& pull : Take(1, 4)) pull(answer);
  for (const auto& pull : Take(1, 2)) pull(answer);
  Take(0, 0);
  for (const auto& pull : of_first) pull(answer);
  for (const auto& pull : Take(0, 2)) pull(answer);
  EXPECT_OK(exchange_->Finish(0));
}

TEST_F(WindowTest, AnErrorEndsWhatWaitsBehindIt) {
  Start(/*servers=*/1);
  LaunchAll();
  const auto first = Take(0, 4);
  first[0](absl::AbortedError("refused"));
  for (const int slot : {1, 2, 3}) first[slot](Pulled{.version = 1, .step = 1});
  EXPECT_EQ(exchange_->Awaited(), "");
  EXPECT_THAT(exchange_->Finish(0), StatusIs(absl::StatusCode::kAborted, "refused"));
  Take(0, 0);
  EXPECT_THAT(exchange_->Launch(0, buckets_.buckets[0], ReadyEvent::Happened()),
              StatusIs(absl::StatusCode::kAborted, "refused"));
}

}  // namespace
}  // namespace psring
