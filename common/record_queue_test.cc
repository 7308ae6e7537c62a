#include "common/record_queue.h"

#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::Each;
using testing::Le;

constexpr auto kNow = RecordQueue::TimePoint::min();

bool AddStep(RecordQueue& queue, int64_t step, int buckets = 0) {
  return queue.Add([&](RecordBatch& batch) {
    StepRecord& record = *batch.add_steps();
    record.set_step(step);
    for (int bucket = 0; bucket < buckets; ++bucket) record.add_buckets();
  });
}

TEST(RecordQueueTest, TheFirstRecordSetsTheTime) {
  RecordQueue queue;
  EXPECT_TRUE(queue.empty());
  const auto before = std::chrono::steady_clock::now();
  EXPECT_TRUE(AddStep(queue, 0));
  const auto due = queue.due();
  EXPECT_GE(due, before + absl::ToChronoNanoseconds(kBatchInterval));
  EXPECT_FALSE(AddStep(queue, 1)) << "woke up for nothing";
  EXPECT_EQ(queue.due(), due);
  RecordBatch batch;
  queue.Take(&batch);
  EXPECT_TRUE(queue.empty());
  ASSERT_EQ(batch.steps_size(), 2);
  EXPECT_EQ(batch.steps(1).step(), 1);
}

TEST(RecordQueueTest, AFullBatchIsDueAtOnce) {
  RecordQueue queue;
  AddStep(queue, 0, /*buckets=*/1000);
  int64_t steps = 1;
  bool changed = false;
  while (queue.due() != kNow) {
    EXPECT_FALSE(changed) << "woke up for a record that did not fill it";
    changed = AddStep(queue, steps++, /*buckets=*/1000);
  }
  EXPECT_TRUE(changed);
  EXPECT_LT(steps, 10);  // Buckets are rows, too.
}

// Nobody sends for long: batches stay small, and every record comes out once, in order.
TEST(RecordQueueTest, ABacklogIsManyBatches) {
  constexpr int64_t kSteps = 20'000;
  RecordQueue queue;
  for (int64_t step = 0; step < kSteps; ++step) AddStep(queue, step);
  int64_t next = 0;
  std::vector<int64_t> sizes;
  RecordBatch batch;
  while (!queue.empty()) {
    queue.Take(&batch);
    sizes.push_back(batch.steps_size());
    for (const StepRecord& step : batch.steps()) ASSERT_EQ(step.step(), next++);
  }
  EXPECT_EQ(next, kSteps);
  EXPECT_THAT(sizes, Each(Le(5000)));
}

TEST(RecordQueueTest, MemoryIsUsedAgain) {
  RecordQueue queue;
  RecordBatch batch;
  const auto round = [&] {
    for (int64_t step = 0; step < 10; ++step) AddStep(queue, step, /*buckets=*/2);
    queue.Take(&batch);
    EXPECT_EQ(batch.steps_size(), 10);
    return &batch.steps(9);
  };
  // Two batches take turns.
  const StepRecord* const first = round();
  const StepRecord* const second = round();
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(round(), i % 2 == 0 ? first : second);
  }
}

}  // namespace
}  // namespace psring
