#include "experiments/arm_result.h"

#include <string>
#include <utility>
#include <vector>

#include "experiments/arm_result_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
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
  TrafficRecord& AddTraffic(const std::string& process, int64_t out, int64_t in) {
    TrafficRecord& traffic = records_.traffic[process];
    traffic.set_process(process);
    traffic.set_payload_out(out);
    traffic.set_payload_in(in);
    return traffic;
  }

  ArmRecords records_;
};

TEST_F(ArmResultTest, RecordingIsAShareOfTheTimeOfAllSteps) {
  for (const int rank : {0, 1}) {
    StepRecord& step = AddStep(rank);
    step.set_total_ns((30 - 10 * rank) * kMillisecond);
    step.set_recording_ns((rank + 1) * kMillisecond);
  }
  records_.recording = absl::Milliseconds(5);
  const RecordingCost cost = Summarize(RingSpec(2), records_).recording;
  EXPECT_DOUBLE_EQ(cost.training_thread_share, 3.0 / 50);
  EXPECT_DOUBLE_EQ(cost.processor_share, 5.0 / 50);
}

TEST_F(ArmResultTest, SaysWhatRan) {
  const ArmResult result = Summarize(ServersSpec(3, 2, Sync::RANK), records_);
  EXPECT_EQ(result.name, "servers by rank");
  EXPECT_EQ(result.mode, "parameter server, sync, rank order");
  EXPECT_EQ(result.workers, 3);
  EXPECT_EQ(result.servers, 2);
  EXPECT_EQ(result.steps, 2);
  EXPECT_EQ(Summarize(ServersSpec(3, 2, Sync::RING), records_).mode,
            "parameter server, sync, ring order");
  EXPECT_EQ(Summarize(RingSpec(3), records_).mode, "ring all-reduce");
  EXPECT_EQ(Summarize(LocalSpec(), records_).mode, "local");
}

// The smallest value that so large a share of all are not above.
TEST_F(ArmResultTest, PercentilesAreByNearestRankOverAllRanks) {
  for (const int milliseconds : {40, 10}) {
    AddStep(0).set_total_ns(milliseconds * kMillisecond);
  }
  for (const int milliseconds : {30, 20}) {
    AddStep(1).set_total_ns(milliseconds * kMillisecond);
  }
  const StepTimes times = Summarize(RingSpec(2), records_).step_ms;
  EXPECT_DOUBLE_EQ(times.p50, 20);
  EXPECT_DOUBLE_EQ(times.p99, 40);
}

TEST_F(ArmResultTest, PercentilesOfManySteps) {
  for (int milliseconds = 200; milliseconds >= 1; --milliseconds) {
    AddStep(0).set_total_ns(milliseconds * kMillisecond);
  }
  EXPECT_DOUBLE_EQ(Summarize(RingSpec(1), records_).step_ms.p50, 100);
  EXPECT_DOUBLE_EQ(Summarize(RingSpec(1), records_).step_ms.p99, 198);
  AddStep(0).set_total_ns(201 * kMillisecond);
  EXPECT_DOUBLE_EQ(Summarize(RingSpec(1), records_).step_ms.p50, 101);
  EXPECT_DOUBLE_EQ(Summarize(RingSpec(1), records_).step_ms.p99, 199);
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
  const StepTimes times = Summarize(RingSpec(2), records_).step_ms;
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
  EXPECT_DOUBLE_EQ(Summarize(RingSpec(2), records_).final_loss, 14.5 + 50);
}

TEST_F(ArmResultTest, FinalLossOfFewSteps) {
  EXPECT_DOUBLE_EQ(Summarize(RingSpec(2), records_).final_loss, 0);
  for (const double loss : {4.0, 3.0, 2.0}) AddStep(0).set_loss(loss);
  EXPECT_DOUBLE_EQ(Summarize(RingSpec(2), records_).final_loss, 3);
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
  EXPECT_DOUBLE_EQ(Summarize(RingSpec(2), records_).samples_per_second, 300 / 0.5);
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
  EXPECT_THAT(Summarize(RingSpec(2), records_).evaluations,
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
  EXPECT_EQ(Summarize(RingSpec(2), records_).evaluations[0].bytes, 2 * 20);
  EXPECT_EQ(Summarize(ServersSpec(2, 1, Sync::RING), records_).evaluations[0].bytes,
            2 * 20 + 2 * 200);
}

TEST_F(EvaluationTest, TimeToTargetIsOfTheFirstAtOrPastIt) {
  AddEvaluation(1, 0.4999);
  EXPECT_EQ(Summarize(RingSpec(2), records_).time_to_target_seconds, std::nullopt);
  AddEvaluation(2, 0.5);
  AddEvaluation(3, 0.9);
  EXPECT_THAT(Summarize(RingSpec(2), records_).time_to_target_seconds,
              Optional(testing::DoubleEq(2)));
}

TEST_F(EvaluationTest, WithoutATargetThereIsNoTimeToIt) {
  AddEvaluation(3, 0.9);
  JobSpec spec = RingSpec(2);
  spec.mutable_experiment()->mutable_training()->clear_target_accuracy();
  EXPECT_EQ(Summarize(spec, records_).time_to_target_seconds, std::nullopt);
}

// Each of 2 ranks sends and receives 40 bytes in each of 2 steps.
TEST_F(ArmResultTest, TrafficEqualToTheFormulaPasses) {
  AddTraffic("worker 0", 80, 80).set_initial_out(40);
  AddTraffic("worker 1", 80, 80).set_initial_in(40);
  const ArmResult result = Summarize(RingSpec(2), records_);
  EXPECT_EQ(result.traffic.verdict, Verdict::kPass) << result.traffic.why;
  ASSERT_EQ(result.endpoints.size(), 2);
  EXPECT_EQ(result.endpoints[0].name, "worker 0");
  EXPECT_EQ(result.endpoints[0].role, "worker");
  EXPECT_EQ(result.endpoints[0].formula_out, 80);
  EXPECT_EQ(result.endpoints[0].formula_in, 80);
  EXPECT_EQ(result.endpoints[0].payload_out, 80);
  EXPECT_EQ(result.endpoints[0].initial_out, 40);
  EXPECT_EQ(result.endpoints[1].initial_in, 40);
}

TEST_F(ArmResultTest, TrafficBesideTheFormulaFailsWithBothNumbers) {
  AddTraffic("worker 0", 80, 80);
  AddTraffic("worker 1", 80, 80);
  AddTraffic("server 0", 160, 156);
  const JobSpec spec = ServersSpec(2, 1, Sync::RING);
  const Certificate certificate = Summarize(spec, records_).traffic;
  EXPECT_EQ(certificate.verdict, Verdict::kFail);
  EXPECT_EQ(certificate.why,
            "server 0 sent 160 bytes where the formula says 160 and received 156 where "
            "it says 160");
  AddTraffic("server 0", 160, 160);
  EXPECT_EQ(Summarize(spec, records_).traffic.verdict, Verdict::kPass);
  AddTraffic("worker 1", 84, 80);
  EXPECT_THAT(Summarize(spec, records_).traffic.why, HasSubstr("worker 1 sent 84"));
}

TEST_F(ArmResultTest, UnreportedTrafficFails) {
  AddTraffic("worker 0", 80, 80);
  const Certificate certificate = Summarize(RingSpec(2), records_).traffic;
  EXPECT_EQ(certificate.verdict, Verdict::kFail);
  EXPECT_EQ(certificate.why, "worker 1 did not report its traffic");
}

TEST_F(ArmResultTest, OneProcessHasNoTraffic) {
  AddDigests(0, {1, 2});
  const ArmResult result = Summarize(LocalSpec(), records_);
  EXPECT_EQ(result.traffic.verdict, Verdict::kNotApplicable);
  EXPECT_EQ(result.replica.verdict, Verdict::kNotApplicable);
}

TEST_F(ArmResultTest, DigestsAreThoseOfRankZeroWhereItChecked) {
  AddStep(0);
  AddStep(0).set_parameter_digest(22);
  AddStep(0);
  AddStep(0).set_parameter_digest(44);
  const ArmResult result = Summarize(RingSpec(1), records_);
  EXPECT_THAT(result.digests, ElementsAre(Pair(1, 22), Pair(3, 44)));
  EXPECT_THAT(result.parameter_digest, Optional(44));
}

TEST_F(ArmResultTest, NoDigestWhereNothingWasChecked) {
  AddStep(0);
  EXPECT_EQ(Summarize(RingSpec(1), records_).parameter_digest, std::nullopt);
}

TEST_F(ArmResultTest, EqualReplicasPass) {
  for (int rank = 0; rank < 3; ++rank) {
    AddStep(rank);
    AddDigests(rank, {1, 2});
  }
  const Certificate certificate = Summarize(RingSpec(3), records_).replica;
  EXPECT_EQ(certificate.verdict, Verdict::kPass);
  EXPECT_EQ(certificate.why, "3 ranks equal at 2 checked steps");
}

TEST_F(ArmResultTest, UnequalReplicasFailWithTheFirstUnequalStep) {
  AddDigests(0, {1, 2, 3, 4});
  AddDigests(1, {1, 2, 3, 0xbad});
  AddDigests(2, {1, 0xbad, 3, 0xbad});
  const Certificate certificate = Summarize(RingSpec(3), records_).replica;
  EXPECT_EQ(certificate.verdict, Verdict::kFail);
  EXPECT_EQ(certificate.why,
            "after step 1 worker 0 has digest 0000000000000002, worker 2 "
            "0000000000000bad");
}

TEST_F(ArmResultTest, AStepThatOnlyOneRankCheckedFails) {
  AddDigests(0, {1, 2});
  AddDigests(1, {1});
  AddStep(1);
  const Certificate certificate = Summarize(RingSpec(2), records_).replica;
  EXPECT_EQ(certificate.verdict, Verdict::kFail);
  EXPECT_THAT(certificate.why, HasSubstr("after step 1"));
}

}  // namespace
}  // namespace psring
