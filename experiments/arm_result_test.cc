#include "experiments/arm_result.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "experiments/arm_result_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::Optional;
using testing::Pair;

constexpr int64_t kMillisecond = 1'000'000;  // In nanoseconds.

class ArmResultTest : public testing::Test {
 protected:
  // The next step of a rank, to be filled in.
  StepRecord& AddStep(int rank) {
    if (records_.steps.size() <= static_cast<size_t>(rank)) {
      records_.steps.resize(rank + 1);
    }
    StepRecord& step = records_.steps[rank].emplace_back();
    step.set_rank(rank);
    step.set_samples(8);
    step.set_step(static_cast<int64_t>(records_.steps[rank].size()) - 1);
    return step;
  }
  void AddDigests(int rank, const std::vector<uint64_t>& digests) {
    for (const uint64_t digest : digests) AddStep(rank).set_parameter_digest(digest);
  }
  void AddEvaluation(int64_t step, double accuracy) {
    EvaluationRecord& evaluation = records_.evaluations.emplace_back();
    evaluation.set_step(step);
    evaluation.set_accuracy(accuracy);
    evaluation.set_loss(1 - accuracy);
  }
  ArmResult Result(const JobSpec& spec, const absl::Status& outcome = absl::OkStatus()) {
    return Summarize(spec, records_, outcome);
  }

  ArmRecords records_;
};

// Of rank 1 in the last steps of two epochs.
TEST_F(ArmResultTest, AStepWithoutSamplesHasNoLossAndIsNoDivergence) {
  for (const int rank : {0, 1}) {
    for (int step = 0; step < 12; ++step) {
      StepRecord& record = AddStep(rank);
      const bool none = rank == 1 && step % 6 == 5;
      record.set_samples(none ? 0 : 50);
      record.set_loss(none ? std::numeric_limits<double>::quiet_NaN() : 20 - step);
      record.set_start_ns(step * 100 * kMillisecond);
      record.set_total_ns(100 * kMillisecond);
    }
  }
  const ArmResult result = Result(RingSpec(2));
  EXPECT_NE(result.convergence, Convergence::kDiverged);
  EXPECT_DOUBLE_EQ(result.samples_per_second, (12 + 10) * 50 / 1.2);
  // Losses 20 to 9 of rank 0; the same without 15 and 9 of rank 1.
  EXPECT_DOUBLE_EQ(result.final_loss, (2 * 174.0 - 15 - 9) / 22);
  records_.steps[1][5].set_samples(50);
  EXPECT_EQ(Result(RingSpec(2)).convergence, Convergence::kDiverged);
}

TEST_F(ArmResultTest, RecordingIsAShareOfTheTimeOfAllSteps) {
  for (const int rank : {0, 1}) {
    StepRecord& step = AddStep(rank);
    step.set_total_ns((30 - 10 * rank) * kMillisecond);
    step.set_recording_ns((rank + 1) * kMillisecond);
  }
  records_.recording = absl::Milliseconds(5);
  const RecordingCost cost = Result(RingSpec(2)).recording;
  EXPECT_DOUBLE_EQ(cost.training_thread_share, 3.0 / 50);
  EXPECT_DOUBLE_EQ(cost.processor_share, 5.0 / 50);
}

TEST_F(ArmResultTest, SaysWhatRan) {
  JobSpec spec = ServersSpec(3, 2, Sync::RANK);
  spec.mutable_experiment()->mutable_training()->set_seed(7);
  const ArmResult result = Result(spec);
  EXPECT_EQ(result.name, "servers by rank");
  EXPECT_EQ(result.mode, "parameter server, sync, rank order");
  EXPECT_EQ(result.seed, 7);
  EXPECT_EQ(result.error, "");
  EXPECT_EQ(result.workers, 3);
  EXPECT_EQ(result.servers, 2);
  EXPECT_EQ(result.steps, 2);
}

// The smallest value that so large a share of all are not above.
TEST_F(ArmResultTest, PercentilesAreByNearestRankOverAllRanks) {
  for (const int milliseconds : {40, 10}) {
    AddStep(0).set_total_ns(milliseconds * kMillisecond);
  }
  for (const int milliseconds : {30, 20}) {
    AddStep(1).set_total_ns(milliseconds * kMillisecond);
  }
  const StepTimes times = Result(RingSpec(2)).step_ms;
  EXPECT_DOUBLE_EQ(times.p50, 20);
  EXPECT_DOUBLE_EQ(times.p99, 40);
}

TEST_F(ArmResultTest, PercentilesOfManySteps) {
  for (int milliseconds = 200; milliseconds >= 1; --milliseconds) {
    AddStep(0).set_total_ns(milliseconds * kMillisecond);
  }
  EXPECT_DOUBLE_EQ(Result(RingSpec(1)).step_ms.p50, 100);
  EXPECT_DOUBLE_EQ(Result(RingSpec(1)).step_ms.p99, 198);
  AddStep(0).set_total_ns(201 * kMillisecond);
  EXPECT_DOUBLE_EQ(Result(RingSpec(1)).step_ms.p50, 101);
  EXPECT_DOUBLE_EQ(Result(RingSpec(1)).step_ms.p99, 199);
}

TEST_F(ArmResultTest, PartsAddUpToTheMean) {
  for (int rank = 0; rank < 2; ++rank) {
    for (int i = 1; i <= 3; ++i) {
      StepRecord& step = AddStep(rank);
      step.set_data_ns(1 * i * kMillisecond);
      step.set_forward_ns(2 * i * kMillisecond);
      step.set_backward_ns(3 * i * kMillisecond);
      step.set_exposed_ns((4 * i + 10 * rank) * kMillisecond);
      step.set_optimizer_ns(5 * i * kMillisecond);
      step.set_total_ns((16 * i + 10 * rank) * kMillisecond);
    }
  }
  const StepTimes times = Result(RingSpec(2)).step_ms;
  EXPECT_DOUBLE_EQ(times.data, 2);
  EXPECT_DOUBLE_EQ(times.forward, 4);
  EXPECT_DOUBLE_EQ(times.backward, 6);
  EXPECT_DOUBLE_EQ(times.exposed, 13);
  EXPECT_DOUBLE_EQ(times.optimizer, 10);
  EXPECT_DOUBLE_EQ(times.unaccounted, 2);
  EXPECT_DOUBLE_EQ(times.mean, 37);
}

TEST_F(ArmResultTest, FinalLossIsOfTheLastTwentySteps) {
  for (int rank = 0; rank < 2; ++rank) {
    for (int step = 0; step < 25; ++step) AddStep(rank).set_loss(step + 100 * rank);
  }
  // Steps 5 to 24 of both.
  EXPECT_DOUBLE_EQ(Result(RingSpec(2)).final_loss, 14.5 + 50);
}

TEST_F(ArmResultTest, FinalLossOfFewSteps) {
  EXPECT_TRUE(std::isnan(Result(RingSpec(2)).final_loss));
  for (const double loss : {4.0, 3.0, 2.0}) AddStep(0).set_loss(loss);
  EXPECT_DOUBLE_EQ(Result(RingSpec(2)).final_loss, 3);
}

TEST_F(ArmResultTest, ThroughputIsAllSamplesUntilTheSlowestRankEnded) {
  for (int rank = 0; rank < 2; ++rank) {
    for (int i = 0; i < 3; ++i) {
      StepRecord& step = AddStep(rank);
      step.set_samples(50);
      step.set_start_ns(i * 100 * kMillisecond);
      step.set_total_ns((rank == 0 ? 300 : 90) * kMillisecond);
    }
  }
  EXPECT_DOUBLE_EQ(Result(RingSpec(2)).samples_per_second, 300 / 0.5);
}

class EvaluationTest : public ArmResultTest {
 protected:
  // Two ranks, three steps; rank 1 ends each a tenth of a second after rank 0.
  void SetUp() override {
    for (int rank = 0; rank < 2; ++rank) {
      for (int i = 0; i < 3; ++i) {
        StepRecord& step = AddStep(rank);
        step.set_start_ns(i * 1000 * kMillisecond);
        step.set_total_ns((900 + 100 * rank) * kMillisecond);
        step.set_payload_out((i + 1) * 10);
        step.set_payload_in((i + 1) * 100);
      }
    }
  }
};

TEST_F(EvaluationTest, TimeIsThatOfTheSlowestRank) {
  AddEvaluation(1, 0.4);
  AddEvaluation(3, 0.9);
  EXPECT_THAT(Result(RingSpec(2)).evaluations,
              ElementsAre(AllOf(Field(&EvaluationPoint::step, 1),
                                Field(&EvaluationPoint::seconds, testing::DoubleEq(1)),
                                Field(&EvaluationPoint::loss, 1 - 0.4),
                                Field(&EvaluationPoint::accuracy, 0.4)),
                          AllOf(Field(&EvaluationPoint::step, 3),
                                Field(&EvaluationPoint::seconds, testing::DoubleEq(3)))));
}

// What a rank of a ring receives, another rank has sent; what a worker receives from a
// server is on no worker's account.
TEST_F(EvaluationTest, BytesAreWhatAllProcessesHadSent) {
  AddEvaluation(2, 0.4);
  EXPECT_EQ(Result(RingSpec(2)).evaluations[0].bytes, 2 * 20);
  EXPECT_EQ(Result(ServersSpec(2, 1, Sync::RING)).evaluations[0].bytes, 2 * 20 + 2 * 200);
}

TEST_F(EvaluationTest, TimeToTargetIsOfTheFirstAtOrPastIt) {
  AddEvaluation(1, 0.4999);
  EXPECT_EQ(Result(RingSpec(2)).time_to_target_seconds, std::nullopt);
  AddEvaluation(2, 0.5);
  AddEvaluation(3, 0.9);
  EXPECT_THAT(Result(RingSpec(2)).time_to_target_seconds, Optional(testing::DoubleEq(2)));
}

TEST_F(EvaluationTest, WithoutATargetThereIsNoTimeToIt) {
  AddEvaluation(3, 0.9);
  JobSpec spec = RingSpec(2);
  spec.mutable_experiment()->mutable_training()->clear_target_accuracy();
  EXPECT_EQ(Result(spec).time_to_target_seconds, std::nullopt);
}

// A server's clock says when the last slot was there; the bytes are those of the steps
// that make the model.
TEST_F(EvaluationTest, TimeOfAServersSnapshotIsTheServers) {
  AddEvaluation(2, 0.4);
  EvaluationRecord& evaluation = records_.evaluations[0];
  evaluation.set_time_ns(1950 * kMillisecond);
  evaluation.set_version_min(7);
  evaluation.set_version_max(9);
  const EvaluationPoint sync = Result(ServersSpec(2, 1, Sync::RING)).evaluations[0];
  EXPECT_DOUBLE_EQ(sync.seconds, 1.95);
  EXPECT_EQ(sync.bytes, 2 * 20 + 2 * 200);
  EXPECT_EQ(sync.version_skew, 2);
  // Rank 0 has ended its second step by then, rank 1 its first.
  const EvaluationPoint async = Result(AsyncSpec(2)).evaluations[0];
  EXPECT_DOUBLE_EQ(async.seconds, 1.95);
  EXPECT_EQ(async.bytes, 20 + 200 + 10 + 100);
}

// More steps than the one and fewer than the other have made.
TEST_F(EvaluationTest, WorkersNeedNotMakeTheSameNumberOfSteps) {
  StepRecord& step = AddStep(0);
  step.set_start_ns(3000 * kMillisecond);
  step.set_payload_out(40);
  AddEvaluation(4, 0.4);
  records_.evaluations[0].set_time_ns(4000 * kMillisecond);
  EXPECT_EQ(Result(AsyncSpec(2)).evaluations[0].bytes, 40 + 30 + 300);
}

TEST_F(EvaluationTest, BeforeAnyStepHasEndedNothingWasSent) {
  AddEvaluation(1, 0.4);
  records_.evaluations[0].set_time_ns(1);
  EXPECT_EQ(Result(AsyncSpec(2)).evaluations[0].bytes, 0);
}

TEST_F(EvaluationTest, VerdictIsWhetherTheTargetWasReached) {
  AddEvaluation(2, 0.4999);
  EXPECT_EQ(Result(RingSpec(2)).convergence, Convergence::kDidNotReach);
  AddEvaluation(3, 0.5);
  EXPECT_EQ(Result(RingSpec(2)).convergence, Convergence::kReachedTarget);
  JobSpec spec = RingSpec(2);
  spec.mutable_experiment()->mutable_training()->clear_target_accuracy();
  EXPECT_EQ(Result(spec).convergence, Convergence::kFinished);
}

TEST_F(EvaluationTest, ALossThatIsNotFiniteIsDivergence) {
  AddEvaluation(3, 0.9);
  records_.evaluations[0].set_loss(std::numeric_limits<double>::infinity());
  EXPECT_EQ(Result(RingSpec(2)).convergence, Convergence::kDiverged);
  records_.evaluations[0].set_loss(1);
  EXPECT_EQ(Result(RingSpec(2)).convergence, Convergence::kReachedTarget);
  records_.steps[1][1].set_loss(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(Result(RingSpec(2)).convergence, Convergence::kDiverged);
}

TEST_F(ArmResultTest, ATrainingLossThatEndsNoLowerThanItBeganIsDivergence) {
  for (int step = 0; step < 10; ++step) AddStep(0).set_loss(step < 9 ? 2 : 2.0001);
  EXPECT_EQ(Result(RingSpec(1)).convergence, Convergence::kDiverged);
  records_.steps[0][9].set_loss(1.9999);
  EXPECT_EQ(Result(RingSpec(1)).convergence, Convergence::kDidNotReach);
}

// What it began with is not known; what is not finite is.
TEST_F(ArmResultTest, ALossThatStaysWhereACheckpointLeftItIsNoDivergence) {
  JobSpec spec = RingSpec(1);
  spec.set_steps(20);
  spec.mutable_restored()->set_step(10);
  spec.mutable_restored()->add_next_steps(10);
  for (int step = 0; step < 10; ++step) AddStep(0).set_loss(0.1);
  EXPECT_EQ(Result(spec).convergence, Convergence::kDidNotReach);
  records_.steps[0][5].set_loss(std::numeric_limits<double>::infinity());
  EXPECT_EQ(Result(spec).convergence, Convergence::kDiverged);
}

// It blows up within the first steps and then guesses: 2.35 at first, log(10) at last.
TEST_F(ArmResultTest, AnArmThatBlowsUpAtOnceAndThenGuessesHasDiverged) {
  for (int step = 0; step < 200; ++step) {
    AddStep(0).set_loss(step == 0 ? 2.35 : step < 10 ? 400 : 2.36);
  }
  EXPECT_EQ(Result(RingSpec(1)).convergence, Convergence::kDiverged);
}

TEST_F(ArmResultTest, AnArmThatEndedBeforeAStepHasNoLoss) {
  const ArmResult result = Result(AsyncSpec(2), absl::OutOfRangeError("is nan"));
  EXPECT_TRUE(std::isnan(result.final_loss)) << result.final_loss;
}

// Four steps against four say nothing.
TEST_F(ArmResultTest, AFewStepsAreNoDivergence) {
  for (int step = 0; step < 9; ++step) AddStep(0).set_loss(step);
  EXPECT_EQ(Result(RingSpec(1)).convergence, Convergence::kDidNotReach);
}

TEST_F(ArmResultTest, OfALongRunTheFirstAndLastTwentyStepsCount) {
  for (int step = 0; step < 100; ++step) AddStep(0).set_loss(step < 50 ? 2 + step : step);
  EXPECT_EQ(Result(RingSpec(1)).convergence, Convergence::kDiverged);
  for (int step = 80; step < 100; ++step) records_.steps[0][step].set_loss(step - 70);
  EXPECT_EQ(Result(RingSpec(1)).convergence, Convergence::kDiverged);
  records_.steps[0][99].set_loss(-400);
  EXPECT_EQ(Result(RingSpec(1)).convergence, Convergence::kDidNotReach);
}

// A gradient that is not finite ends an arm early, maybe before every worker has made a
// step. What there is, is reported; what was promised of a whole run does not apply.
TEST_F(ArmResultTest, AnArmThatEndedEarlyHasDiverged) {
  AddDigests(0, {1, 2});
  const ArmResult result =
      Result(BoundedSpec(2, 1), absl::OutOfRangeError("worker 0: bias[2] is nan"));
  EXPECT_EQ(result.error, "worker 0: bias[2] is nan");
  EXPECT_EQ(result.convergence, Convergence::kDiverged);
  for (const Certificate* certificate :
       {&result.replica, &result.traffic, &result.memory, &result.consistency}) {
    EXPECT_EQ(certificate->verdict, Verdict::kNotApplicable);
    EXPECT_EQ(certificate->why, "the arm did not come to its end");
  }
}

TEST_F(ArmResultTest, EveryCertificateIsChecked) {
  const ArmResult servers = Result(ServersSpec(2, 1, Sync::RING));
  EXPECT_EQ(servers.replica.why, "worker 0 made 0 steps of 2");
  EXPECT_EQ(servers.traffic.why, "worker 0 did not report its traffic");
  EXPECT_EQ(servers.consistency.why, "slot 0 counted 0 contributions of 4");
}

TEST_F(ArmResultTest, CausesAreMeansOverAllSteps) {
  for (const int rank : {0, 1}) {
    StepRecord& step = AddStep(rank);
    step.set_not_ready_ns((1 + rank) * kMillisecond);
    step.set_peer_late_ns((3 + rank) * kMillisecond);
    step.set_on_wire_ns((5 + rank) * kMillisecond);
    step.set_working_ns((7 + rank) * kMillisecond);
  }
  const StepTimes times = Result(RingSpec(2)).step_ms;
  EXPECT_DOUBLE_EQ(times.not_ready, 1.5);
  EXPECT_DOUBLE_EQ(times.peer_late, 3.5);
  EXPECT_DOUBLE_EQ(times.on_wire, 5.5);
  EXPECT_DOUBLE_EQ(times.working, 7.5);
}

TEST_F(ArmResultTest, WaitingIsAShareOfTheTimeOfAllSteps) {
  for (const int rank : {0, 1}) {
    StepRecord& step = AddStep(rank);
    step.set_total_ns((30 - 10 * rank) * kMillisecond);
    step.set_exposed_ns((5 + rank) * kMillisecond);
  }
  records_.steps[0][0].set_peer_late_ns(4 * kMillisecond);
  records_.steps[0][0].set_waited_for(1);
  const Waiting waiting = Result(ServersSpec(2, 1, Sync::RING)).waiting;
  EXPECT_DOUBLE_EQ(waiting.exposed, 11.0 / 50);
  EXPECT_DOUBLE_EQ(waiting.peer_late, 4.0 / 50);
  EXPECT_THAT(waiting.for_worker, ElementsAre(Pair(1, testing::DoubleEq(4.0 / 50))));
}

TEST_F(ArmResultTest, BucketsAreThoseOfThePlan) {
  using testing::ElementsAre;
  JobSpec spec = RingSpec(2);
  RingMode& ring = *spec.mutable_arm()->mutable_ring();
  ring.set_algorithm(RingMode::AUTO);
  ring.add_choices()->set_up_to_bytes(12);
  ring.add_choices()->set_algorithm(RingMode::TREE);
  EXPECT_THAT(Result(spec).buckets,
              ElementsAre(PlannedBucket{.bytes = 12, .algorithm = RingMode::RING},
                          PlannedBucket{.bytes = 28, .algorithm = RingMode::TREE}));
  EXPECT_THAT(Result(ServersSpec(2, 1, Sync::RING)).buckets,
              ElementsAre(PlannedBucket{.bytes = 12}, PlannedBucket{.bytes = 28}));
}

TEST_F(ArmResultTest, SkippedBucketsAreCounted) {
  AddStep(0).set_skipped_buckets(2);
  AddStep(1).set_skipped_buckets(3);
  EXPECT_EQ(Result(RingSpec(2)).skipped_buckets, 5);
}

TEST_F(ArmResultTest, DigestsAreThoseOfRankZeroWhereItChecked) {
  AddStep(0);
  AddStep(0).set_parameter_digest(22);
  AddStep(0);
  AddStep(0).set_parameter_digest(44);
  const ArmResult result = Result(RingSpec(1));
  EXPECT_THAT(result.digests, ElementsAre(Pair(1, 22), Pair(3, 44)));
  EXPECT_THAT(result.parameter_digest, Optional(44));
}

TEST_F(ArmResultTest, NoDigestWhereNothingWasChecked) {
  AddStep(0);
  EXPECT_EQ(Result(RingSpec(1)).parameter_digest, std::nullopt);
}

// Workers of most modes have no parameters in common; the servers' last ones are what
// the arm has come to.
TEST_F(ArmResultTest, WithServersTheDigestIsOfTheLastEvaluation) {
  AddStep(0).set_parameter_digest(22);
  EXPECT_EQ(Result(AsyncSpec(1)).parameter_digest, std::nullopt);
  AddEvaluation(1, 0.1);
  AddEvaluation(2, 0.2);
  records_.evaluations[0].set_digest(33);
  records_.evaluations[1].set_digest(44);
  EXPECT_THAT(Result(AsyncSpec(1)).parameter_digest, Optional(44));
  EXPECT_THAT(Result(RingSpec(1)).parameter_digest, Optional(22));
}

TEST_F(ArmResultTest, LateStepsAreAShareOfAll) {
  EXPECT_EQ(Result(RingSpec(2)).late_share, 0);
  AddStep(0).set_late(true);
  AddStep(0);
  AddStep(1);
  AddStep(1);
  EXPECT_DOUBLE_EQ(Result(RingSpec(2)).late_share, 0.25);
}

// There is no loss, which is no divergence; the digest comes from the workers where they
// all have the servers' parameters.
TEST_F(ArmResultTest, EmulatedComputeFinishesAndLearnsNothing) {
  for (const int rank : {0, 1}) {
    for (int step = 0; step < 20; ++step) {
      AddStep(rank).set_loss(std::numeric_limits<double>::quiet_NaN());
    }
    records_.steps[rank].back().set_parameter_digest(0xabc);
  }
  JobSpec sync = ServersSpec(2, 1, Sync::RING);
  JobSpec async = AsyncSpec(2);
  for (JobSpec* const spec : {&sync, &async}) {
    EXPECT_EQ(Result(*spec).convergence, Convergence::kDiverged);
    EXPECT_TRUE(Result(*spec).learns);
    spec->mutable_experiment()->mutable_compute()->mutable_emulated();
    spec->mutable_experiment()->mutable_training()->clear_target_accuracy();
    EXPECT_EQ(Result(*spec).convergence, Convergence::kFinished);
    EXPECT_FALSE(Result(*spec).learns);
  }
  EXPECT_THAT(Result(sync).parameter_digest, Optional(0xabc));
  EXPECT_EQ(Result(async).parameter_digest, std::nullopt);
}

// A byte takes a microsecond, and there is a second for 100,000.
TEST_F(ArmResultTest, WhetherItMeasuredItsLinksIsAskedOfSeveralWorkersOnHosts) {
  AddStep(0).set_total_ns(1000 * kMillisecond);
  records_.moving = absl::Seconds(1);
  for (const int second : {0, 1}) {
    HostsReading& reading = records_.readings.emplace_back();
    reading.time = absl::UnixEpoch() + absl::Seconds(second);
    reading.processors = absl::Seconds(2 * second);
    reading.idle = absl::Seconds(second);
    for (const char* host : {"worker 0", "worker 1"}) {
      for (const bool out : {false, true}) {
        reading.links.push_back({.host = host, .out = out, .bytes = second * 100'000});
      }
      records_.traffic[host].set_payload_out(80);
    }
  }
  JobSpec two = RingSpec(2);
  EXPECT_FALSE(Result(two).validity.has_value()) << "no hosts";
  two.mutable_experiment()->mutable_cluster()->mutable_hosts()->set_link_mbit_s(8);
  ASSERT_TRUE(Result(two).validity.has_value());
  EXPECT_TRUE(Result(two).is_void());
  EXPECT_EQ(Result(two).validity->cause, "low load");
  EXPECT_FALSE(Result(two, absl::UnknownError("nan")).validity.has_value());
  JobSpec one = two;
  one.set_workers(1);
  EXPECT_FALSE(Result(one).validity.has_value());
  EXPECT_TRUE(Result(one).link_usage.has_value());
}

}  // namespace
}  // namespace psring
