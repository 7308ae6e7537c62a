#include "experiments/bench/push_pull/plan.h"

#include "absl/numeric/int128.h"
#include "absl/strings/ascii.h"
#include "common/partition.h"
#include "experiments/inventory.h"
#include "proto/experiment.pb.h"

namespace psring {
namespace {

// The inventory's tensors, each with its share of `count`.
ParameterLayout LayoutOf(const PushPullJob& job, int64_t count) {
  ParameterLayout layout;
  if (job.inventory().empty()) {
    layout.Add("values", {count});
    return layout;
  }
  InventoryModel model;
  model.set_name(job.inventory());
  model.set_divisor(1);
  const ParameterLayout shapes = InventoryLayout(model);
  // The share of all tensors up to one is rounded, so that their shares are `count`.
  const absl::int128 all = shapes.count();
  int64_t begin = 0;
  for (const Tensor& tensor : shapes.tensors()) {
    const auto end = static_cast<int64_t>(
        absl::int128(tensor.range.begin + tensor.range.count) * count / all);
    layout.Add(tensor.name, {end - begin});
    begin = end;
  }
  return layout;
}

BucketPlan OneBucket(const ParameterLayout& layout) {
  return PlanBuckets(layout, layout.bytes(), layout.bytes());
}

}  // namespace

int64_t PushPullPlan::pushed_bytes() const {
  int64_t bytes = 0;
  for (const Slot& slot : slots.slots) bytes += wire.EncodedBytes(slot.range.count);
  return bytes;
}

int PushPullPlan::echoes() const {
  return static_cast<int>(int64_t{sizeof(float)} / wire.EncodedBytes(1));
}

PushPullPlan PlanPushPull(const PushPullJob& job, int64_t count) {
  const ParameterLayout layout = LayoutOf(job, count);
  PushPullPlan plan{.count = count,
                    .workers = job.workers(),
                    .wire = job.wire(),
                    .buckets = OneBucket(layout),
                    .slots = {}};
  plan.slots = PlanSlots(layout, plan.buckets, job.servers(), job.mode().placement(),
                         job.slot_bytes());
  return plan;
}

std::vector<std::string> PlacementNames() {
  std::vector<std::string> names;
  for (int i = 0; ParameterServerMode::Placement_IsValid(i); ++i) {
    names.push_back(absl::AsciiStrToLower(
        ParameterServerMode::Placement_Name(static_cast<Placement>(i))));
  }
  return names;
}

int64_t CountSlots(const PushPullJob& job, int64_t count) {
  const ParameterLayout layout = LayoutOf(job, count);
  return CountSlots(layout, OneBucket(layout), job.servers(), job.mode().placement(),
                    job.slot_bytes());
}

std::vector<SlotBytes> SlotBytesOf(const PushPullPlan& plan, int server,
                                   std::span<float> gradients,
                                   std::span<float> parameters) {
  std::vector<SlotBytes> all;
  for (const int index : plan.slots.of_server[server]) {
    const Range range = plan.slots.slots[index].range;
    // Elements of 16 bits lie at half the distance.
    all.push_back(
        {.push = std::as_writable_bytes(gradients).subspan(
             plan.wire.EncodedBytes(range.begin), plan.wire.EncodedBytes(range.count)),
         .answer = std::as_writable_bytes(parameters.subspan(range.begin, range.count))});
  }
  return all;
}

}  // namespace psring
