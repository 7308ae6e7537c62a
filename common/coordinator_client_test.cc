// The coordinator with real gRPC between its client and its service, in one process.
#include "common/coordinator_client.h"

#include <stdlib.h>

#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint.h"
#include "common/clock_offset.h"
#include "common/coordinator.h"
#include "common/coordinator_service.h"
#include "common/errors.h"
#include "common/job_observer.h"
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
using testing::SizeIs;

JobSpec MakeSpec() {
  JobSpec spec;
  Liveness& liveness = *spec.mutable_experiment()->mutable_liveness();
  liveness.set_heartbeat_seconds(0.02);
  spec.set_job("job");
  spec.set_workers(2);
  spec.set_steps(7);
  return spec;
}

// Keeps the steps of what is reported.
class StepListener final : public JobObserver {
 public:
  void Reported(const Member& from, RecordBatch batch, absl::Duration intake) override {
    EXPECT_EQ(from.rank(), 0);
    if (++batches == 1) first_step.set_value(batch.steps(0).step());
    for (const StepRecord& step : batch.steps()) steps.push_back(step.step());
    EXPECT_GE(batch.sender_processor_ns(), sender_processor_ns);
    sender_processor_ns = batch.sender_processor_ns();
    EXPECT_GT(intake, last_intake);
    last_intake = intake;
  }

  std::promise<int64_t> first_step;
  int batches = 0;
  std::vector<int64_t> steps;
  int64_t sender_processor_ns = 0;
  absl::Duration last_intake;
};

class CoordinatorClientTest : public testing::Test {
 protected:
  void SetUp() override { Restart(); }

  // With the present settings.
  void Restart() {
    host_.reset();
    JobSpec spec = MakeSpec();
    spec.mutable_experiment()->mutable_liveness()->MergeFrom(stall_);
    coordinator_ = std::make_unique<Coordinator>(spec, &time_, &listener_);
    auto host = CoordinatorHost::Start("127.0.0.1:0", coordinator_.get());
    ASSERT_OK(host);
    host_ = *std::move(host);
  }

  CoordinatorClient::Options OptionsOf(int rank) {
    CoordinatorClient::Options options;
    options.address = absl::StrCat("127.0.0.1:", host_->port());
    options.job = "job";
    options.member.set_role(WORKER);
    options.member.set_rank(rank);
    return options;
  }

  StepListener listener_;
  RealTime time_;
  Liveness stall_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<CoordinatorHost> host_;
};

TEST_F(CoordinatorClientTest, TwoMembersMeetAndLeave) {
  std::vector<std::thread> workers;
  for (int rank = 0; rank < 2; ++rank) {
    workers.emplace_back([&, rank] {
      ASSERT_OK_AND_ASSIGN(const auto client, CoordinatorClient::Join(OptionsOf(rank)));
      EXPECT_EQ(client->spec().steps(), 7);
      EXPECT_OK(client->Put(absl::StrCat("key ", rank), absl::StrCat("value ", rank)));
      const auto other = client->Get(absl::StrCat("key ", 1 - rank));
      ASSERT_OK(other);
      EXPECT_EQ(*other, absl::StrCat("value ", 1 - rank));
      EXPECT_OK(client->Barrier("start"));
      EXPECT_OK(client->BarrierWithoutDeadline("end"));
      EXPECT_OK(client->Leave(absl::OkStatus()));
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_TRUE(coordinator_->finished());
  EXPECT_OK(coordinator_->status());
}

// Two members of a job that writes checkpoints: orders reach them, the latest also those
// that begin to listen late, and their replies make a checkpoint.
TEST_F(CoordinatorClientTest, MembersMakeACheckpoint) {
  std::string folder = absl::StrCat(testing::TempDir(), "/client_XXXXXX");
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  host_.reset();
  JobSpec spec = MakeSpec();
  spec.set_contributions_per_update(2);
  spec.set_checkpoint_folder(folder);
  coordinator_ = std::make_unique<Coordinator>(spec, &time_, &listener_);
  ASSERT_OK_AND_ASSIGN(host_, CoordinatorHost::Start("127.0.0.1:0", coordinator_.get()));
  std::vector<std::unique_ptr<CoordinatorClient>> clients;
  std::vector<std::promise<void>> resumed(2);
  std::vector<int> has_resumed(2);  // An order may come twice.
  const auto obey = [&](int rank, const CheckpointOrder& order) {
    CheckpointReply reply;
    reply.set_round(order.round());
    reply.set_step(3 + rank);
    if (order.kind() == CheckpointOrder::RESUME) {
      if (std::exchange(has_resumed[rank], 1) == 0) resumed[rank].set_value();
      return;
    }
    if (order.kind() == CheckpointOrder::SAVE) {
      reply.set_kind(CheckpointReply::SAVED);
      const auto part = WriteCheckpointPart(order.folder(), absl::StrCat("worker ", rank),
                                            order.step(), {}, [](int64_t) {});
      ASSERT_OK(part);
      *reply.mutable_file() = *part;
    } else if (order.before_step() == 0) {
      reply.set_kind(CheckpointReply::PROMISES);
    } else {
      reply.set_kind(CheckpointReply::HOLDS);
      reply.set_step(order.before_step());
    }
    clients[rank]->Reply(reply);
  };
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_OK_AND_ASSIGN(auto client, CoordinatorClient::Join(OptionsOf(rank)));
    clients.push_back(std::move(client));
  }
  const auto listen = [&](int rank) {
    clients[rank]->SetOrders([&obey, rank](const auto& order) { obey(rank, order); });
  };
  listen(0);
  coordinator_->checkpoints().Request();
  listen(1);
  for (auto& promise : resumed) promise.get_future().wait();
  EXPECT_THAT(coordinator_->checkpoints().TakeNews(),
              ElementsAre(absl::StrCat("checkpoint of step 4: ", folder, "/step-4")));
  ASSERT_OK_AND_ASSIGN(const Checkpoint checkpoint, Checkpoint::Open(folder + "/step-4"));
  EXPECT_THAT(checkpoint.manifest().next_steps(), ElementsAre(4, 4));
  EXPECT_EQ(checkpoint.manifest().spec().job(), "job");
  for (const auto& client : clients) client->SetOrders(nullptr);
  std::filesystem::remove_all(folder);
}

// What is to come after the checkpoint comes also where there can be none.
TEST_F(CoordinatorClientTest, WithoutCheckpointsARequestOnlyEndsTheJob) {
  coordinator_->checkpoints().Request();
  EXPECT_OK(coordinator_->status());
  coordinator_->checkpoints().Request(absl::CancelledError("stopped"));
  EXPECT_THAT(coordinator_->status(),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("stopped")));
  EXPECT_THAT(coordinator_->checkpoints().TakeNews(), SizeIs(2));
}

TEST_F(CoordinatorClientTest, EveryReportIsTakenInBeforeLeaveReturns) {
  ASSERT_OK_AND_ASSIGN(const auto client, CoordinatorClient::Join(OptionsOf(0)));
  // Enough to fill several batches, and a part of one.
  constexpr int kReports = 10'000;
  for (int step = 0; step < kReports; ++step) {
    client->Report([&](RecordBatch& batch) { batch.add_steps()->set_step(step); });
  }
  ASSERT_OK(client->Leave(absl::OkStatus()));
  ASSERT_EQ(listener_.steps.size(), kReports);
  for (int step = 0; step < kReports; ++step) EXPECT_EQ(listener_.steps[step], step);
  EXPECT_GT(listener_.batches, 1);
  EXPECT_GT(listener_.sender_processor_ns, 0);
}

// As far behind another as one that began later.
class LateTime final : public TimeSource {
 public:
  LateTime(const TimeSource* time, absl::Duration behind)
      : time_(time), behind_(behind) {}
  absl::Duration Elapsed() const override { return time_->Elapsed() - behind_; }

 private:
  const TimeSource* const time_;
  const absl::Duration behind_;
};

TEST_F(CoordinatorClientTest, AClockIsComparedWithTheCoordinators) {
  ASSERT_OK_AND_ASSIGN(const auto client, CoordinatorClient::Join(OptionsOf(0)));
  const LateTime late(&time_, absl::Hours(7));
  const absl::Duration before = late.Elapsed();
  ASSERT_OK_AND_ASSIGN(const ClockOffset compared, client->CompareClock(late));
  EXPECT_GT(compared.error, absl::ZeroDuration());
  EXPECT_LE(absl::AbsDuration(compared.offset - absl::Hours(7)), compared.error);
  EXPECT_GT(compared.time, before);
  EXPECT_LT(compared.time, late.Elapsed());
}

// Time, not the end, sends what does not fill a batch.
TEST_F(CoordinatorClientTest, AReportNeedsNoOtherToBeSent) {
  ASSERT_OK_AND_ASSIGN(const auto client, CoordinatorClient::Join(OptionsOf(0)));
  client->Report([](RecordBatch& batch) { batch.add_steps()->set_step(3); });
  EXPECT_EQ(listener_.first_step.get_future().get(), 3);
}

TEST_F(CoordinatorClientTest, AMemberThatGoesWithoutAGoodbyeEndsTheOthers) {
  ASSERT_OK_AND_ASSIGN(const auto survivor, CoordinatorClient::Join(OptionsOf(0)));
  ASSERT_OK_AND_ASSIGN(auto lost, CoordinatorClient::Join(OptionsOf(1)));
  lost.reset();
  EXPECT_THAT(survivor->BarrierWithoutDeadline("end"),
              StatusIs(StatusCode::kUnavailable, AllOf(HasSubstr("worker 1 (process"),
                                                       HasSubstr("without a goodbye"))));
  // Its own outcome is the job's first error.
  EXPECT_THAT(survivor->Leave(absl::OkStatus()),
              StatusIs(StatusCode::kUnavailable, HasSubstr("worker 1")));
}

TEST_F(CoordinatorClientTest, AFailureReachesTheOthersWithItsExitCode) {
  ASSERT_OK_AND_ASSIGN(const auto survivor, CoordinatorClient::Join(OptionsOf(0)));
  ASSERT_OK_AND_ASSIGN(const auto failed, CoordinatorClient::Join(OptionsOf(1)));
  EXPECT_FALSE(failed->Leave(CheckFailedError("unequal")).ok());
  const auto value = survivor->Get("never");
  EXPECT_THAT(value, StatusIs(StatusCode::kDataLoss, testing::Eq("worker 1: unequal")));
  EXPECT_EQ(ExitCodeOf(value.status()), ExitCode::kCheckFailed);
}

TEST_F(CoordinatorClientTest, ALostCoordinatorEndsItsMembers) {
  ASSERT_OK_AND_ASSIGN(const auto client, CoordinatorClient::Join(OptionsOf(0)));
  host_.reset();
  EXPECT_THAT(client->BarrierWithoutDeadline("end"),
              StatusIs(StatusCode::kUnavailable, HasSubstr("coordinator")));
}

// Activities reach the judge: a member under way without progress is stalled.
TEST_F(CoordinatorClientTest, AStalledMemberIsNamedWithWhatItWasDoing) {
  stall_.set_stall_seconds(0.3);
  Restart();
  ASSERT_OK_AND_ASSIGN(const auto other, CoordinatorClient::Join(OptionsOf(0)));
  ASSERT_OK_AND_ASSIGN(const auto stuck, CoordinatorClient::Join(OptionsOf(1)));
  Activity activity;
  activity.set_under_way(true);
  activity.set_step(12);
  activity.set_phase("forward");
  stuck->SetActivity([activity] { return activity; });
  for (const auto* client : {&other, &stuck}) {
    EXPECT_THAT((*client)->BarrierWithoutDeadline("end"),
                StatusIs(StatusCode::kUnavailable,
                         AllOf(HasSubstr("worker 1 (process"),
                               HasSubstr("(step 12, forward) is stalled"))));
  }
}

TEST_F(CoordinatorClientTest, NobodyThereIsARendezvousTimeout) {
  CoordinatorClient::Options options = OptionsOf(0);
  options.rendezvous_timeout = absl::Milliseconds(50);
  host_.reset();
  const auto client = CoordinatorClient::Join(options);
  EXPECT_THAT(client, StatusIs(StatusCode::kDeadlineExceeded,
                               AllOf(HasSubstr("worker 0"), HasSubstr(options.address))));
  EXPECT_EQ(ExitCodeOf(client.status()), ExitCode::kRendezvousTimeout);
}

TEST_F(CoordinatorClientTest, AnInfiniteTimeoutWaits) {
  CoordinatorClient::Options options = OptionsOf(0);
  options.rendezvous_timeout = absl::InfiniteDuration();
  ASSERT_OK_AND_ASSIGN(const auto client, CoordinatorClient::Join(options));
  ASSERT_OK(client->Put("key", "value"));
  EXPECT_OK(client->Get("key"));
}

TEST_F(CoordinatorClientTest, RefusalsSayWhy) {
  ASSERT_OK_AND_ASSIGN(const auto client, CoordinatorClient::Join(OptionsOf(0)));
  EXPECT_THAT(CoordinatorClient::Join(OptionsOf(0)),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("already")));
  CoordinatorClient::Options stranger = OptionsOf(1);
  stranger.job = "yesterday";
  EXPECT_THAT(CoordinatorClient::Join(stranger),
              StatusIs(StatusCode::kFailedPrecondition, HasSubstr("yesterday")));
  EXPECT_OK(coordinator_->status());
}

TEST_F(CoordinatorClientTest, ATakenPortIsAnError) {
  JobObserver nobody;
  Coordinator other(MakeSpec(), &time_, &nobody);
  EXPECT_THAT(CoordinatorHost::Start(absl::StrCat("127.0.0.1:", host_->port()), &other),
              StatusIs(StatusCode::kUnavailable, HasSubstr(absl::StrCat(host_->port()))));
}

}  // namespace
}  // namespace psring
