#include "experiments/restore.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "proto/coordinator.pb.h"
#include "proto/experiment.pb.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// The end-to-end tests find checkpoints in folders; here is what becomes of one.
class ContinueTest : public testing::Test {
 protected:
  // A job of two workers and 100 steps; `arm` as in the experiment.
  static JobSpec Job(const std::string& arm, int contributions_per_update) {
    JobSpec spec;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        "experiment { model { tensors { elements: 4 } } training { global_batch: 8 "
        "optimizer { sgd { learning_rate: 0.5 } } } } workers: 2 steps: 100 "
        "tensors { name: 't' shape: 4 }",
        &spec));
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(arm, spec.mutable_arm()));
    spec.mutable_arm()->set_name("arm");
    spec.set_contributions_per_update(contributions_per_update);
    return spec;
  }
  static JobSpec Sync() { return Job("parameter_server { sync {} }", 2); }
  static JobSpec Ring() { return Job("ring {}", 2); }
  static JobSpec Bounded(int bound) {
    return Job(absl::StrCat("parameter_server { bounded { bound: ", bound, " } }"), 1);
  }
  static JobSpec Async() { return Job("parameter_server { async {} }", 1); }

  static CheckpointManifest Of(const JobSpec& writer, int64_t first, int64_t second) {
    CheckpointManifest manifest;
    *manifest.mutable_spec() = writer;
    manifest.set_step((first + second) / 2);
    manifest.add_next_steps(first);
    manifest.add_next_steps(second);
    return manifest;
  }
};

TEST_F(ContinueTest, EveryModeThatKeepsStepContinuesFromEveryOther) {
  for (const JobSpec& from : {Sync(), Ring()}) {
    for (const JobSpec& to : {Sync(), Ring()}) {
      ASSERT_OK_AND_ASSIGN(const Restored restored, Continue(Of(from, 7, 7), 7, to));
      EXPECT_EQ(restored.step(), 7);
      EXPECT_EQ(restored.version(), 7);
      EXPECT_THAT(restored.next_steps(), ElementsAre(7, 7));
    }
  }
}

TEST_F(ContinueTest, VersionsAreCountedAsTheModeCountsThem) {
  ASSERT_OK_AND_ASSIGN(Restored restored, Continue(Of(Sync(), 7, 7), 7, Async()));
  EXPECT_EQ(restored.version(), 14);
  ASSERT_OK_AND_ASSIGN(restored, Continue(Of(Async(), 7, 7), 14, Sync()));
  EXPECT_EQ(restored.version(), 7);
  // Two of 9 contributions were dropped: a slot has seen 7 updates.
  ASSERT_OK_AND_ASSIGN(restored, Continue(Of(Async(), 5, 4), 7, Async()));
  EXPECT_EQ(restored.version(), 7);
  EXPECT_EQ(restored.step(), 4);
}

TEST_F(ContinueTest, WorkersThatKeepStepMustHaveMadeTheSameSteps) {
  EXPECT_OK(Continue(Of(Async(), 8, 6), 14, Async()));
  EXPECT_THAT(Continue(Of(Async(), 8, 6), 14, Ring()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("workers have made 6 to 8 steps")));
}

TEST_F(ContinueTest, WorkersMustNotBeFurtherApartThanTheModeLetsThem) {
  EXPECT_OK(Continue(Of(Async(), 8, 6), 14, Bounded(2)));
  EXPECT_THAT(Continue(Of(Async(), 8, 6), 14, Bounded(1)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("workers have made 6 to 8 steps"),
                             HasSubstr("at most 1 apart"),
                             HasSubstr("bounded.bound of at least 2, or async"))));
}

TEST_F(ContinueTest, OlderVersionsAreInNoCheckpoint) {
  EXPECT_THAT(Continue(Of(Sync(), 7, 7), 7,
                       Job("parameter_server { fixed_delay { delay: 1 } }", 1)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("fixed_delay")));
}

TEST_F(ContinueTest, SomethingMustBeLeftToDo) {
  EXPECT_OK(Continue(Of(Ring(), 99, 99), 99, Ring()));
  EXPECT_THAT(Continue(Of(Ring(), 100, 100), 100, Ring()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("of step 100"), HasSubstr("at least 101"))));
  EXPECT_OK(Continue(Of(Async(), 120, 78), 198, Async()));
  EXPECT_THAT(Continue(Of(Async(), 120, 79), 199, Async()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("at least 101")));
}

// A cosine without steps of its own ends with the run, so that another number of steps is
// another curve.
TEST_F(ContinueTest, TheScheduleIsTheSameCurve) {
  const auto with = [](int64_t steps, int64_t cosine) {
    JobSpec spec = Ring();
    spec.set_steps(steps);
    Schedule* const schedule = spec.mutable_experiment()
                                   ->mutable_training()
                                   ->mutable_optimizer()
                                   ->mutable_schedule();
    schedule->set_warmup_steps(10);
    schedule->mutable_cosine()->set_steps(cosine);
    return spec;
  };
  EXPECT_OK(Continue(Of(with(100, 0), 7, 7), 7, with(100, 0)));
  EXPECT_OK(Continue(Of(with(100, 0), 7, 7), 7, with(200, 90)));
  EXPECT_OK(Continue(Of(with(100, 50), 7, 7), 7, with(200, 50)));
  EXPECT_THAT(Continue(Of(with(100, 0), 7, 7), 7, with(200, 0)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("optimizer: modified: schedule.cosine.steps: "
                                 "90 -> 190")));
}

TEST_F(ContinueTest, WhatDecidesTheTrainingMustBeTheSame) {
  const auto refused = [](const std::string& change) {
    JobSpec spec = Ring();
    JobSpec changed;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(change, &changed));
    spec.MergeFrom(changed);
    const auto restored = Continue(Of(Ring(), 7, 7), 7, spec);
    EXPECT_TRUE(absl::IsInvalidArgument(restored.status())) << restored.status();
    return std::string(restored.status().message());
  };
  EXPECT_THAT(refused("workers: 3"), HasSubstr("it is of 2 workers, arm arm has 3"));
  EXPECT_THAT(refused("experiment { training { seed: 3 } }"),
              HasSubstr("training: added: seed: 3"));
  EXPECT_THAT(refused("experiment { training { global_batch: 16 } }"),
              HasSubstr("training: modified: global_batch: 8 -> 16"));
  EXPECT_THAT(refused("experiment { training { optimizer { sgd { momentum: 0.5 } } } }"),
              HasSubstr("optimizer: added: sgd.momentum: 0.5"));
  EXPECT_THAT(refused("experiment { model { tensors { repeat: 2 } } }"),
              HasSubstr("model: added: tensors.repeat: 2"));
  EXPECT_THAT(refused("tensors { name: 'u' shape: 1 }"), HasSubstr("layout: added: "));
  // What decides how fast it is, and how long it lasts, may be another.
  JobSpec spec = Ring();
  spec.set_steps(200);
  spec.mutable_experiment()->mutable_buckets()->set_cap_bytes(4);
  spec.mutable_experiment()->mutable_training()->set_digest_interval(3);
  EXPECT_OK(Continue(Of(Ring(), 7, 7), 7, spec));
}

}  // namespace
}  // namespace psring
