#include "worker/delayed_parameter_channel.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/errors.h"
#include "common/mutex.h"
#include "common/status_matchers.h"
#include "common/test_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// What has happened, in order, and can be waited for.
class Log {
 public:
  void Add(const std::string& what) {
    MutexLock lock(&mutex_);
    entries_.push_back(what);
    added_.NotifyAll();
  }
  std::vector<std::string> Get() {
    MutexLock lock(&mutex_);
    return entries_;
  }
  std::vector<std::string> Await(size_t count) {
    MutexLock lock(&mutex_);
    while (entries_.size() < count) added_.Wait(&mutex_);
    return entries_;
  }

 private:
  Mutex mutex_;
  CondVar added_;
  std::vector<std::string> entries_ ABSL_GUARDED_BY(mutex_);
};

// Logs requests, and does them when the test says so or when it is aborted.
class ScriptedChannel final : public ParameterChannel {
 public:
  using Finish = std::function<void(const absl::Status& status)>;

  explicit ScriptedChannel(Log* log) : log_(log) {}

  void Initialize(const Slot& slot, std::span<const float> parameters,
                  Done done) override {
    Add(absl::StrCat("initialize ", slot.index, " of ", parameters.size()), done);
  }
  void Pull(const Slot& slot, int64_t step, std::span<float>, PullDone done) override {
    Add(absl::StrCat("pull ", slot.index, " for ", step),
        WithOutcome(Pulled{.version = step}, done));
  }
  void Exchange(const Slot& slot, int64_t step, int64_t version, Bytes, std::span<float>,
                PullDone done) override {
    Add(absl::StrCat("exchange ", slot.index, " of ", step, " from ", version),
        WithOutcome(Pulled{.version = version + 1}, done));
  }
  void Snapshot(const Slot& slot, int64_t step, std::span<float>,
                SnapshotDone done) override {
    Add(absl::StrCat("snapshot ", slot.index, " after ", step),
        WithOutcome(SnapshotInfo{.version = step}, done));
  }
  void Leave(Done done) override { Add("leave", done); }

  void Abort(const absl::Status& reason) override {
    log_->Add("abort");
    for (const Finish& finish : TakeAll()) finish(reason);
  }

  // The oldest one that is not done.
  void FinishNext() {
    Finish finish;
    {
      MutexLock lock(&mutex_);
      finish = running_.front();
      running_.erase(running_.begin());
    }
    finish(absl::OkStatus());
  }

 private:
  template <typename Outcome, typename OutcomeDone>
  static Finish WithOutcome(Outcome outcome, OutcomeDone done) {
    return [outcome, done](const absl::Status& status) {
      if (status.ok()) {
        done(outcome);
      } else {
        done(status);
      }
    };
  }
  void Add(const std::string& what, Finish finish) {
    {
      MutexLock lock(&mutex_);
      running_.push_back(std::move(finish));
    }
    log_->Add(what);
  }
  std::vector<Finish> TakeAll() {
    MutexLock lock(&mutex_);
    return std::exchange(running_, {});
  }

  Log* const log_;
  Mutex mutex_;
  std::vector<Finish> running_ ABSL_GUARDED_BY(mutex_);
};

class DelayedParameterChannelTest : public testing::Test {
 protected:
  DelayedParameterChannelTest() {
    auto below = std::make_unique<ScriptedChannel>(&below_log_);
    below_ = below.get();
    channel_ = std::make_unique<DelayedParameterChannel>(std::move(below),
                                                         absl::Milliseconds(5), &clock_);
  }

  void Pull(int64_t step) {
    channel_->Pull(slot_, step, {}, [this, step](const absl::StatusOr<Pulled>& pulled) {
      if (pulled.ok()) {
        EXPECT_EQ(pulled->delayed, absl::Milliseconds(5));
      }
      done_.Add(pulled.ok()
                    ? absl::StrCat("pulled ", pulled->version)
                    : absl::StrCat("pull ", step, ": ", pulled.status().message()));
    });
  }
  void SetMs(int64_t now) { clock_.Set(absl::Milliseconds(now)); }
  // With something on its way: then the channel looks at the clock until it is due.
  void LetItLook() { clock_.AwaitLooks(3); }

  const Slot slot_ = {
      .index = 7, .bucket = 0, .server = 0, .range = {.begin = 0, .count = 2}};
  TestClock clock_;
  Log below_log_;
  Log done_;
  ScriptedChannel* below_ = nullptr;  // The channel's.
  std::unique_ptr<DelayedParameterChannel> channel_;
};

TEST_F(DelayedParameterChannelTest, EachWayTakesTheDelay) {
  Pull(3);
  SetMs(4);
  LetItLook();
  EXPECT_THAT(below_log_.Get(), IsEmpty());
  SetMs(5);
  EXPECT_THAT(below_log_.Await(1), ElementsAre("pull 7 for 3"));
  SetMs(8);
  below_->FinishNext();
  SetMs(12);
  LetItLook();
  EXPECT_THAT(done_.Get(), IsEmpty());
  SetMs(13);
  EXPECT_THAT(done_.Await(1), ElementsAre("pulled 3"));
}

// Three requests are on their way at once, and an answer passes them.
TEST_F(DelayedParameterChannelTest, RequestsDoNotWaitForOneAnother) {
  for (int64_t step = 0; step < 3; ++step) {
    SetMs(step);
    Pull(step);
  }
  SetMs(5);
  below_log_.Await(1);
  below_->FinishNext();
  LetItLook();
  EXPECT_THAT(below_log_.Get(), ElementsAre("pull 7 for 0"));
  SetMs(7);
  EXPECT_THAT(below_log_.Await(3),
              ElementsAre("pull 7 for 0", "pull 7 for 1", "pull 7 for 2"));
  below_->FinishNext();
  below_->FinishNext();
  SetMs(12);
  EXPECT_THAT(done_.Await(3), ElementsAre("pulled 0", "pulled 1", "pulled 2"));
}

TEST_F(DelayedParameterChannelTest, EveryKindOfRequestIsHandedOn) {
  const std::vector<float> floats(2);
  const auto add = [this](const auto& outcome) {
    done_.Add(std::string(outcome.ok() ? "done" : outcome.status().message()));
  };
  const auto add_status = [this](const absl::Status& status) {
    done_.Add(std::string(status.ok() ? "done" : status.message()));
  };
  channel_->Initialize(slot_, floats, add_status);
  channel_->Exchange(slot_, 4, 3, {}, {}, add);
  channel_->Snapshot(slot_, 6, {}, add);
  channel_->Leave(add_status);
  SetMs(5);
  EXPECT_THAT(below_log_.Await(4),
              ElementsAre("initialize 7 of 2", "exchange 7 of 4 from 3",
                          "snapshot 7 after 6", "leave"));
  for (int i = 0; i < 4; ++i) below_->FinishNext();
  SetMs(10);
  EXPECT_THAT(done_.Await(4), testing::Each("done"));
}

// One that is answered, one that is not, and one on its way: the clock stands still.
TEST_F(DelayedParameterChannelTest, AnAbortEndsAllAtOnceAndEachOnce) {
  Pull(0);
  Pull(1);
  SetMs(5);
  below_log_.Await(2);
  below_->FinishNext();
  Pull(2);
  channel_->Abort(PeerLostError("gone"));
  channel_->Abort(absl::CancelledError("second"));
  EXPECT_THAT(done_.Await(3), testing::UnorderedElementsAre(
                                  "pull 0: gone", "pull 1: gone", "pull 2: gone"));
  Pull(3);
  EXPECT_EQ(done_.Await(4).back(), "pull 3: gone");
  channel_.reset();
  EXPECT_THAT(below_log_.Get(), ElementsAre("pull 7 for 0", "pull 7 for 1", "abort"));
  EXPECT_EQ(done_.Get().size(), 4u);
}

TEST_F(DelayedParameterChannelTest, TheDestructorEndsWhatIsOnItsWay) {
  Pull(0);
  channel_.reset();
  EXPECT_THAT(done_.Get(), ElementsAre("pull 0: the channel has ended"));
}

}  // namespace
}  // namespace psring
