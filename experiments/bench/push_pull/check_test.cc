#include "experiments/bench/push_pull/check.h"

#include <algorithm>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/bench.pb.h"

namespace psring {
namespace {

PushPullJob Job(int workers, int servers, int64_t slot_bytes) {
  PushPullJob job;
  job.set_workers(workers);
  job.set_servers(servers);
  job.set_slot_bytes(slot_bytes);
  return job;
}

TEST(CheckTest, InputsDifferByWorkerIndexAndOperation) {
  EXPECT_EQ(PushPullInput(0, 0, 0), 1);
  EXPECT_EQ(PushPullInput(1, 0, 0), 2);
  EXPECT_EQ(PushPullInput(0, 0, 1), 2);
  EXPECT_EQ(PushPullInput(0, 1, 0), 2);
  EXPECT_EQ(PushPullInput(15, 0, 60), 76);
}

// By hand: element 3 of two workers in two operations: (4 + 5) and (5 + 6).
TEST(CheckTest, ParametersAreWhatSgdMakesOfThePushes) {
  EXPECT_EQ(PushPullExpected(/*lockstep=*/true, 2, 2, 3), -10);
  EXPECT_EQ(PushPullExpected(/*lockstep=*/false, 2, 2, 3), -20);
  // A third is no float: the mean of 1, 2 and 3 is that of a sum times a rounded third.
  EXPECT_EQ(PushPullExpected(/*lockstep=*/true, 3, 1, 0), -(6.0f * (1.0f / 3.0f)));
}

TEST(CheckTest, WrongParametersAreCountedAndTheFirstIsNamed) {
  std::vector<float> parameters(5);
  for (int i = 0; i < 5; ++i) parameters[i] = PushPullExpected(true, 2, 1, i);
  EXPECT_EQ(WrongParameters(true, 2, 1, parameters).elements, 0);
  parameters[2] = 0;
  parameters[4] = 0;
  const Wrong wrong = WrongParameters(true, 2, 1, parameters);
  EXPECT_EQ(wrong.elements, 2);
  EXPECT_EQ(wrong.first, "element 2: 0 instead of -3.5");
}

TEST(CheckTest, AnEchoThatDiffersIsNamedWhereverItsSlotIs) {
  const PushPullPlan plan = PlanPushPull(Job(1, 2, 8), 7);
  std::vector<float> gradients(7), parameters(7);
  for (int i = 0; i < 7; ++i) gradients[i] = parameters[i] = PushPullInput(0, 0, i);
  EXPECT_EQ(WrongEchoes(plan, gradients, parameters).elements, 0);
  parameters[5] = 0;
  const Wrong wrong = WrongEchoes(plan, gradients, parameters);
  EXPECT_EQ(wrong.elements, 1);
  EXPECT_EQ(wrong.first, "element 5 did not come back as it was pushed");
}

TEST(CheckTest, WithSixteenBitsAnEchoComesTwice) {
  PushPullJob job = Job(1, 1, 1 << 10);
  job.mutable_wire()->mutable_bf16();
  const PushPullPlan plan = PlanPushPull(job, 4);
  std::vector<float> gradients(4), parameters(4);
  for (int i = 0; i < 4; ++i) gradients[i] = PushPullInput(0, 0, i);
  // The pushed half of the gradients' memory, twice.
  std::copy_n(gradients.begin(), 2, parameters.begin());
  std::copy_n(gradients.begin(), 2, parameters.begin() + 2);
  EXPECT_EQ(WrongEchoes(plan, gradients, parameters).elements, 0);
  parameters[3] = 0;
  EXPECT_GT(WrongEchoes(plan, gradients, parameters).elements, 0);
}

}  // namespace
}  // namespace psring
