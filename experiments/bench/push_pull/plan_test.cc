#include "experiments/bench/push_pull/plan.h"

#include <vector>

#include "common/slot_plan.h"
#include "gtest/gtest.h"
#include "proto/bench.pb.h"
#include "proto/experiment.pb.h"

namespace psring {
namespace {

PushPullJob Job(int servers, int64_t slot_bytes) {
  PushPullJob job;
  job.set_workers(2);
  job.set_servers(servers);
  job.set_slot_bytes(slot_bytes);
  return job;
}

// Every element is in one slot, a slot's bytes lie where its floats do, and the number of
// slots is known without making them.
TEST(PlanTest, SlotsCoverAllElementsOnce) {
  for (const int64_t count : {1, 2, 5, 64, 1000}) {
    for (const int servers : {1, 2, 3}) {
      for (const int64_t slot_bytes : {4, 16, 100, 1 << 20}) {
        const PushPullPlan plan = PlanPushPull(Job(servers, slot_bytes), count);
        EXPECT_EQ(CountSlots(Job(servers, slot_bytes), count), plan.slots.slots.size());
        std::vector<float> gradients(count), parameters(count, 0.0f);
        for (int server = 0; server < servers; ++server) {
          for (const SlotBytes& slot : SlotBytesOf(plan, server, gradients, parameters)) {
            EXPECT_EQ(slot.push.size(), slot.answer.size());
            EXPECT_LE(slot.answer.size(), slot_bytes);
            float* const floats = reinterpret_cast<float*>(slot.answer.data());
            EXPECT_EQ(reinterpret_cast<float*>(slot.push.data()) - gradients.data(),
                      floats - parameters.data());
            for (size_t i = 0; i < slot.answer.size() / sizeof(float); ++i) ++floats[i];
          }
        }
        EXPECT_EQ(parameters, std::vector<float>(count, 1.0f));
        EXPECT_EQ(plan.pushed_bytes(), 4 * count);
        EXPECT_EQ(plan.answered_bytes(), 4 * count);
      }
    }
  }
}

TEST(PlanTest, SixteenBitsHalveAPush) {
  PushPullJob job = Job(1, 16);
  job.mutable_wire()->mutable_fp16();
  const PushPullPlan plan = PlanPushPull(job, 7);
  EXPECT_EQ(plan.pushed_bytes(), 14);
  EXPECT_EQ(plan.answered_bytes(), 28);
  EXPECT_EQ(plan.echoes(), 2);
  std::vector<float> gradients(7), parameters(7);
  const auto slots = SlotBytesOf(plan, 0, gradients, parameters);
  ASSERT_EQ(slots.size(), 2);
  EXPECT_EQ(slots[1].push.data(), slots[0].push.data() + slots[0].push.size());
}

TEST(PlanTest, ASlotsNumberDoesNotOverflow) {
  EXPECT_EQ(CountSlots(Job(1, 4), int64_t{1} << 38), int64_t{1} << 38);
}

// Tensors keep their proportions, whatever the size, and none is lost to rounding.
TEST(PlanTest, AnInventorysTensorsShareTheSize) {
  PushPullJob job = Job(2, 1 << 20);
  job.set_inventory("vgg16");
  for (const int64_t count : {1, 1000, 1 << 24}) {
    for (const Placement placement :
         {ParameterServerMode::STRIPED, ParameterServerMode::BY_TENSOR_ROUND_ROBIN,
          ParameterServerMode::BY_TENSOR_SIZE, ParameterServerMode::SINGLE}) {
      job.mutable_mode()->set_placement(placement);
      const PushPullPlan plan = PlanPushPull(job, count);
      EXPECT_EQ(plan.pushed_bytes(), 4 * count);
      EXPECT_EQ(CountSlots(job, count), plan.slots.slots.size());
      if (count < 1000) continue;
      const double imbalance = ServerImbalance(plan.slots);
      // The first fully connected layer has 102.8 of 138.4 million parameters.
      if (placement == ParameterServerMode::BY_TENSOR_SIZE) {
        EXPECT_NEAR(imbalance, 2 * 102'764'544 / 138'357'544.0, 0.01);
      }
      if (placement == ParameterServerMode::SINGLE) {
        EXPECT_EQ(imbalance, 2);
      }
    }
  }
}

}  // namespace
}  // namespace psring
