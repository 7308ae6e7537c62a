// Which server owns which part of which bucket, and the traffic that follows. Pure.
#ifndef PSRING_COMMON_SLOT_PLAN_H_
#define PSRING_COMMON_SLOT_PLAN_H_

#include <cstdint>
#include <vector>

#include "common/layout.h"
#include "common/partition.h"

namespace psring {

// A contiguous part of one bucket owned by one server: the unit of push, pull, version
// and round.
struct Slot {
  int index = 0;
  int bucket = 0;
  int server = 0;
  Range range;  // Elements of the flat buffer; never empty.
};

struct SlotPlan {
  int servers = 0;
  std::vector<Slot> slots;  // slots[i].index == i; by bucket, server and range.
  std::vector<std::vector<int>> of_bucket;  // Slot indices per bucket.
  std::vector<std::vector<int>> of_server;  // Slot indices per server; may be empty.
};

// A slot is one message. Messages of 256 KiB to 4 MiB move equally fast
// (server/README.md); smaller ones cost more processor time, with larger ones the server
// has nothing to add up until a long message is complete.
inline constexpr int64_t kMaxSlotBytes = 1 << 20;

// Striped placement: server k owns the k-th of S parts of every bucket, cut into the
// fewest equal slots (as PartitionRange cuts) of at most `max_slot_bytes`, a positive
// number of whole floats. Empty parts (more servers than elements) are no slots.
SlotPlan PlanStripedSlots(const BucketPlan& buckets, int servers,
                          int64_t max_slot_bytes = kMaxSlotBytes);

// Payload bytes of one synchronous step, per direction (sent and received are equal).
int64_t WorkerStepBytes(const SlotPlan& plan);
int64_t ServerStepBytes(const SlotPlan& plan, int server, int workers);

}  // namespace psring

#endif  // PSRING_COMMON_SLOT_PLAN_H_
