#include "common/coordinator.h"

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/job_observer.h"
#include "common/schedule.h"
#include "common/status_matchers.h"
#include "common/time_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using absl::StatusCode;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Waits that must end by an event get this; none is meant to last.
constexpr absl::Duration kLong = absl::Seconds(60);
// For waits that must run out.
constexpr absl::Duration kShort = absl::Milliseconds(5);

JobSpec MakeSpec(int workers, int servers) {
  JobSpec spec;
  spec.set_job("job");
  spec.set_workers(workers);
  spec.set_servers(servers);
  return spec;
}

Hello MakeHello(Role role, int rank) {
  Hello hello;
  hello.set_protocol_version(kProtocolVersion);
  hello.set_job("job");
  hello.mutable_member()->set_role(role);
  hello.mutable_member()->set_rank(rank);
  hello.set_host("host" + std::to_string(rank));
  hello.set_process_id(100 + rank);
  return hello;
}

// Writes down what it hears.
class Listener final : public JobObserver {
 public:
  void Joined(const Hello& process) override { Add(process.member(), "joined"); }
  void Ended(const Hello& process, const absl::Status& outcome) override {
    Add(process.member(), absl::StrCat("ended: ", outcome.message()));
  }
  void Aborted(const absl::Status& reason) override {
    heard.push_back(absl::StrCat("aborted: ", reason.message()));
  }
  void Warned(const std::string& text) override {
    heard.push_back(absl::StrCat("warned: ", text));
  }
  void Reported(const Member& from, RecordBatch batch, absl::Duration intake) override {
    Add(from, absl::StrCat("step ", batch.steps(0).step(), " in ",
                           absl::FormatDuration(intake)));
  }

  std::vector<std::string> heard;

 private:
  void Add(const Member& member, const std::string& what) {
    heard.push_back(absl::StrCat(ToString(member), " ", what));
  }
};

class FakeTime final : public TimeSource {
 public:
  absl::Duration Elapsed() const override { return now; }
  absl::Duration now;
};

class CoordinatorTest : public testing::Test {
 protected:
  FakeTime time_;
  Listener listener_;
  Coordinator coordinator_{MakeSpec(2, 1), &time_, &listener_};
};

TEST_F(CoordinatorTest, OneProcessPerMember) {
  ASSERT_OK_AND_ASSIGN(const JobSpec spec, coordinator_.Join(MakeHello(WORKER, 0)));
  EXPECT_EQ(spec.workers(), 2);
  EXPECT_THAT(coordinator_.Join(MakeHello(WORKER, 0)),
              StatusIs(StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("worker 0"), HasSubstr("already"))));
  Hello stranger = MakeHello(WORKER, 1);
  stranger.set_job("yesterday");
  EXPECT_THAT(coordinator_.Join(stranger),
              StatusIs(StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("\"yesterday\""), HasSubstr("\"job\""))));
  EXPECT_THAT(coordinator_.Join(MakeHello(SERVER, 1)),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("1 servers")));
  Hello old = MakeHello(WORKER, 1);
  old.set_protocol_version(0);
  EXPECT_THAT(coordinator_.Join(old),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("version 0")));
  EXPECT_OK(coordinator_.status());
}

TEST_F(CoordinatorTest, FirstReasonWins) {
  coordinator_.Abort(PeerLostError("first"));
  coordinator_.Abort(absl::InternalError("second"));
  const auto is_first = StatusIs(StatusCode::kUnavailable, testing::Eq("first"));
  EXPECT_THAT(coordinator_.status(), is_first);
  EXPECT_THAT(coordinator_.Join(MakeHello(WORKER, 0)), is_first);
  EXPECT_THAT(coordinator_.Get("key", kLong), is_first);
  EXPECT_THAT(coordinator_.Barrier("b", MakeHello(WORKER, 0).member(), kLong), is_first);
}

TEST_F(CoordinatorTest, LossIsAbort) {
  ASSERT_OK(coordinator_.Join(MakeHello(WORKER, 1)));
  coordinator_.Lose(MakeHello(WORKER, 1), "was lost");
  EXPECT_THAT(coordinator_.status(),
              StatusIs(StatusCode::kUnavailable,
                       HasSubstr("worker 1 (process 101 on host1) was lost")));
  EXPECT_EQ(ExitCodeOf(coordinator_.status()), ExitCode::kPeerLost);
}

TEST_F(CoordinatorTest, SilenceIsAbortAndHeartbeatsKeepItAway) {
  const Hello hello = MakeHello(WORKER, 1);
  ASSERT_OK(coordinator_.Join(hello));
  for (int second = 0; second < 100; ++second) {
    time_.now += absl::Seconds(1);
    coordinator_.Hear(hello, Activity());
    EXPECT_TRUE(coordinator_.CheckLiveness().empty());
    ASSERT_OK(coordinator_.status());
  }
  for (int second = 0; second < 10; ++second) {
    time_.now += absl::Seconds(1);
    EXPECT_TRUE(coordinator_.CheckLiveness().empty());
  }
  EXPECT_THAT(coordinator_.status(),
              StatusIs(StatusCode::kUnavailable,
                       HasSubstr("worker 1 (process 101 on host1) is dead")));
}

TEST_F(CoordinatorTest, AMembersFailureAbortsWithItsName) {
  ASSERT_OK(coordinator_.Join(MakeHello(SERVER, 0)));
  coordinator_.Leave(MakeHello(SERVER, 0), absl::InvalidArgumentError("bad data"));
  EXPECT_THAT(coordinator_.status(),
              StatusIs(StatusCode::kInvalidArgument, testing::Eq("server 0: bad data")));
}

TEST_F(CoordinatorTest, TheCauseGoesBeforeItsSymptoms) {
  ASSERT_OK(coordinator_.Join(MakeHello(WORKER, 0)));
  ASSERT_OK(coordinator_.Join(MakeHello(WORKER, 1)));
  std::thread victim([&] {
    coordinator_.Leave(MakeHello(WORKER, 0), PeerLostError("left neighbour is gone"));
  });
  coordinator_.Abort(PeerLostError("worker 1 was killed"));
  victim.join();
  EXPECT_THAT(coordinator_.status(),
              StatusIs(StatusCode::kUnavailable, testing::Eq("worker 1 was killed")));
}

TEST_F(CoordinatorTest, TheObserverHearsOfALifeInOrder) {
  const Hello hello = MakeHello(WORKER, 1);
  ASSERT_OK(coordinator_.Join(hello));
  EXPECT_FALSE(coordinator_.Join(hello).ok());
  RecordBatch batch;
  batch.add_steps()->set_step(7);
  coordinator_.Take(hello.member(), batch, absl::Seconds(2));
  coordinator_.Leave(hello, absl::InvalidArgumentError("bad data"));
  coordinator_.Abort(PeerLostError("later"));
  EXPECT_THAT(listener_.heard,
              ElementsAre("worker 1 joined", "worker 1 step 7 in 2s",
                          "worker 1 ended: bad data", "aborted: worker 1: bad data"));
}

TEST_F(CoordinatorTest, TheObserverHearsOfALoss) {
  ASSERT_OK(coordinator_.Join(MakeHello(WORKER, 1)));
  coordinator_.Lose(MakeHello(WORKER, 1), "was lost");
  EXPECT_THAT(listener_.heard,
              ElementsAre("worker 1 joined",
                          "worker 1 ended: worker 1 (process 101 on host1) was lost",
                          "aborted: worker 1 (process 101 on host1) was lost"));
}

TEST_F(CoordinatorTest, TheObserverHearsOfWarningsOnce) {
  const Hello hello = MakeHello(WORKER, 1);
  ASSERT_OK(coordinator_.Join(hello));
  Activity stuck;
  stuck.set_under_way(true);
  for (int second = 0; second < 20; ++second) {
    time_.now += absl::Seconds(1);
    coordinator_.Hear(hello, stuck);
    (void)coordinator_.CheckLiveness();
  }
  EXPECT_THAT(listener_.heard,
              ElementsAre("worker 1 joined",
                          AllOf(HasSubstr("warned: worker 1 (process 101 on host1)"),
                                HasSubstr("no progress"))));
}

TEST_F(CoordinatorTest, GetWaitsForPut) {
  std::thread putter([&] { coordinator_.Put("key", "value"); });
  ASSERT_OK_AND_ASSIGN(const std::string value, coordinator_.Get("key", kLong));
  EXPECT_EQ(value, "value");
  putter.join();
}

TEST_F(CoordinatorTest, GetRunsOutAndNamesWhoIsMissing) {
  ASSERT_OK(coordinator_.Join(MakeHello(WORKER, 0)));
  const auto value = coordinator_.Get("endpoint/server 0", kShort);
  EXPECT_THAT(value, StatusIs(StatusCode::kDeadlineExceeded,
                              AllOf(HasSubstr("endpoint/server 0"),
                                    HasSubstr("not joined: worker 1, server 0"))));
  EXPECT_EQ(ExitCodeOf(value.status()), ExitCode::kRendezvousTimeout);
}

TEST_F(CoordinatorTest, MissingUntilJoined) {
  EXPECT_EQ(coordinator_.missing(), "worker 0, worker 1, server 0");
  ASSERT_OK(coordinator_.Join(MakeHello(WORKER, 1)));
  EXPECT_EQ(coordinator_.missing(), "worker 0, server 0");
  ASSERT_OK(coordinator_.Join(MakeHello(WORKER, 0)));
  ASSERT_OK(coordinator_.Join(MakeHello(SERVER, 0)));
  coordinator_.Leave(MakeHello(WORKER, 0), absl::OkStatus());
  EXPECT_EQ(coordinator_.missing(), "");
}

TEST_F(CoordinatorTest, BarrierLetsAllThroughTogether) {
  std::vector<std::thread> others;
  for (const Hello& hello : {MakeHello(WORKER, 1), MakeHello(SERVER, 0)}) {
    others.emplace_back(
        [&, hello] { EXPECT_OK(coordinator_.Barrier("start", hello.member(), kLong)); });
  }
  EXPECT_OK(coordinator_.Barrier("start", MakeHello(WORKER, 0).member(), kLong));
  for (std::thread& other : others) other.join();
}

TEST_F(CoordinatorTest, BarrierRunsOutAndNamesWhoIsMissing) {
  EXPECT_THAT(
      coordinator_.Barrier("start", MakeHello(WORKER, 1).member(), kShort),
      StatusIs(StatusCode::kDeadlineExceeded,
               AllOf(HasSubstr("worker 1 waited"), HasSubstr("for worker 0, server 0"))));
  // Entering again is not entering twice.
  EXPECT_THAT(coordinator_.Barrier("start", MakeHello(WORKER, 1).member(), kShort),
              StatusIs(StatusCode::kDeadlineExceeded, HasSubstr("worker 0, server 0")));
}

TEST(CoordinatorScheduleTest, IsTheSpecsUpToItsLastStep) {
  JobSpec spec = MakeSpec(2, 1);
  spec.set_steps(10);
  spec.set_contributions_per_update(2);
  Optimizer& optimizer =
      *spec.mutable_experiment()->mutable_training()->mutable_optimizer();
  optimizer.mutable_adam()->set_learning_rate(0.5f);
  optimizer.mutable_adam()->set_beta1(0.9f);
  optimizer.mutable_schedule()->mutable_cosine();
  const FakeTime time;
  JobObserver nobody;
  Coordinator coordinator(spec, &time, &nobody);
  ASSERT_OK_AND_ASSIGN(const auto schedule, coordinator.GetSchedule(7, 100));
  ASSERT_EQ(schedule.size(), 3);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(schedule[i], StepConstantsAt(optimizer, 10, 7 + i));
  }
  ASSERT_OK_AND_ASSIGN(const auto one, coordinator.GetSchedule(0, 1));
  EXPECT_EQ(one, std::vector<StepConstants>{StepConstantsAt(optimizer, 10, 0)});
  for (const auto& [first_update, count] : std::vector<std::pair<int64_t, int64_t>>{
           {-1, 1}, {10, 1}, {0, 0}, {0, -1}, {0, kMostScheduleUpdates + 1}}) {
    EXPECT_THAT(coordinator.GetSchedule(first_update, count),
                StatusIs(StatusCode::kInvalidArgument,
                         HasSubstr("the job has at most 10 updates")));
  }
  coordinator.Abort(PeerLostError("over"));
  EXPECT_THAT(coordinator.GetSchedule(0, 1),
              StatusIs(StatusCode::kUnavailable, testing::Eq("over")));
}

TEST_F(CoordinatorTest, WherePushesAreUpdatesTheScheduleAdvancesByAFractionOfAStep) {
  JobSpec spec = MakeSpec(4, 1);
  spec.set_steps(10);
  spec.set_contributions_per_update(1);
  Optimizer& optimizer =
      *spec.mutable_experiment()->mutable_training()->mutable_optimizer();
  optimizer.mutable_adam()->set_learning_rate(0.5f);
  optimizer.mutable_adam()->set_beta1(0.9f);
  optimizer.mutable_schedule()->mutable_cosine();
  const FakeTime time;
  JobObserver nobody;
  Coordinator coordinator(spec, &time, &nobody);
  ASSERT_OK_AND_ASSIGN(const auto schedule, coordinator.GetSchedule(0, 100));
  ASSERT_EQ(schedule.size(), 40);
  EXPECT_EQ(schedule[6], StepConstantsAt(optimizer, 10, /*position=*/1.5, /*updates=*/6));
}

TEST_F(CoordinatorTest, AbortFreesWhoIsParked) {
  std::thread parked([&] {
    EXPECT_THAT(coordinator_.Get("never", absl::InfiniteDuration()),
                StatusIs(StatusCode::kUnavailable, testing::Eq("over")));
  });
  coordinator_.Abort(PeerLostError("over"));
  parked.join();
}

TEST_F(CoordinatorTest, FinishedWhenAllHaveLeft) {
  const std::vector<Hello> all = {MakeHello(WORKER, 0), MakeHello(WORKER, 1),
                                  MakeHello(SERVER, 0)};
  for (const Hello& hello : all) ASSERT_OK(coordinator_.Join(hello));
  for (const Hello& hello : all) {
    EXPECT_FALSE(coordinator_.finished());
    coordinator_.Leave(hello, absl::OkStatus());
  }
  EXPECT_TRUE(coordinator_.finished());
  EXPECT_OK(coordinator_.status());
  // There is nobody left whom an abort would concern.
  coordinator_.Abort(PeerLostError("the coordinator ended"));
  EXPECT_THAT(listener_.heard.back(), testing::Eq("server 0 ended: "));
}

}  // namespace
}  // namespace psring
