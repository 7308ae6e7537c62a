#include "common/slot_plan.h"

#include "glog/logging.h"

namespace psring {

SlotPlan PlanStripedSlots(const BucketPlan& buckets, int servers,
                          int64_t max_slot_bytes) {
  CHECK_GT(servers, 0);
  const int64_t max_count = max_slot_bytes / int64_t{sizeof(float)};
  CHECK_GT(max_count, 0);
  SlotPlan plan;
  plan.servers = servers;
  plan.of_bucket.resize(buckets.buckets.size());
  plan.of_server.resize(servers);
  for (const Bucket& bucket : buckets.buckets) {
    for (int server = 0; server < servers; ++server) {
      const Range part = PartitionRange(bucket.range.count, servers, server);
      const int64_t pieces = part.count / max_count + (part.count % max_count > 0);
      for (int64_t piece = 0; piece < pieces; ++piece) {
        Range range = PartitionRange(part.count, pieces, piece);
        range.begin += bucket.range.begin + part.begin;
        const int index = static_cast<int>(plan.slots.size());
        plan.slots.push_back(
            {.index = index, .bucket = bucket.index, .server = server, .range = range});
        plan.of_bucket[bucket.index].push_back(index);
        plan.of_server[server].push_back(index);
      }
    }
  }
  return plan;
}

int64_t WorkerStepBytes(const SlotPlan& plan) {
  int64_t count = 0;
  for (const Slot& slot : plan.slots) count += slot.range.count;
  return count * int64_t{sizeof(float)};
}

int64_t ServerStepBytes(const SlotPlan& plan, int server, int workers) {
  int64_t count = 0;
  for (const int slot : plan.of_server[server]) count += plan.slots[slot].range.count;
  return count * int64_t{sizeof(float)} * workers;
}

}  // namespace psring
