// What moves in an operation of `psring bench push-pull`: the slots of so many floats,
// and each slot's bytes both ways. Pure.
#ifndef PSRING_EXPERIMENTS_BENCH_PUSH_PULL_PLAN_H_
#define PSRING_EXPERIMENTS_BENCH_PUSH_PULL_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/layout.h"
#include "common/slot_plan.h"
#include "common/wire_type.h"
#include "proto/bench.pb.h"

namespace psring {

// One bucket, of one tensor or as many as an inventory has. Each worker pushes a slot's
// gradients as they are on the wire, and is answered with its parameters, which are
// floats.
struct PushPullPlan {
  int64_t count = 0;
  int workers = 0;
  WireType wire;
  BucketPlan buckets;
  SlotPlan slots;

  // Of one worker in one operation.
  int64_t pushed_bytes() const;
  int64_t answered_bytes() const { return count * int64_t{sizeof(float)}; }
  // Who only echoes sends a push so often: an answer has as many bytes as from psring.
  int echoes() const;
};

// Requires count > 0 and settings as CheckPushPullOptions gives them.
PushPullPlan PlanPushPull(const PushPullJob& job, int64_t count);

// "striped", "by_tensor_size": by the number of the placement.
std::vector<std::string> PlacementNames();

// How many slots that is; without making them.
int64_t CountSlots(const PushPullJob& job, int64_t count);

// The bytes of one worker's slots of one server: in a push, which lie anywhere in its
// gradients' memory, and in the answer, which are those of the slots' floats.
struct SlotBytes {
  std::span<std::byte> push;
  std::span<std::byte> answer;
};
// Buffers of plan.count floats each.
std::vector<SlotBytes> SlotBytesOf(const PushPullPlan& plan, int server,
                                   std::span<float> gradients,
                                   std::span<float> parameters);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_PUSH_PULL_PLAN_H_
