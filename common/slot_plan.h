// Which server owns which part of which bucket, and the traffic that follows. Pure.
#ifndef PSRING_COMMON_SLOT_PLAN_H_
#define PSRING_COMMON_SLOT_PLAN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "common/layout.h"
#include "common/partition.h"
#include "proto/experiment.pb.h"

namespace psring {

using Placement = ParameterServerMode::Placement;

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

// No plan has more: at each process a slot takes some hundred bytes beside its floats.
inline constexpr int64_t kMostSlots = int64_t{1} << 22;

// Every element is in exactly one slot, and a slot is of one bucket and one server. What
// a server owns of a bucket without a gap is cut into the fewest equal slots (as
// PartitionRange cuts) of at most a number of bytes.
//
//   STRIPED                    server k owns the k-th of S parts of every bucket. Parts
//                              are empty, and no slots, where S is above the elements.
//   BY_TENSOR_ROUND_ROBIN      tensors that have elements go to servers 0, 1, ... S - 1,
//                              0, ... in forward order.
//   BY_TENSOR_SIZE             tensors go to the server that has least so far (of several
//                              the first), the largest tensor first (of several the first
//                              in forward order): Graham's rule of 1969, at most 4/3 of
//                              the least possible maximum.
//   SINGLE                     server 0 owns everything.
//
// The bytes are `max_slot_bytes`, a positive number of whole floats, where it is given.
// Else they are kMaxSlotBytes; where tensors stay whole, only 1/256 of what the busiest
// server has, but at least 32 KiB: that server's answers begin when all workers have
// pushed one of its slots and end after the last one is in, and meanwhile one way of its
// link is idle.
//
// The layout is that of the buckets, servers are at least 1, and there are at most
// kMostSlots slots.
SlotPlan PlanSlots(const ParameterLayout& layout, const BucketPlan& buckets, int servers,
                   Placement placement,
                   std::optional<int64_t> max_slot_bytes = std::nullopt);

// The number of slots that PlanSlots makes, also where these are too many. Takes neither
// the time nor the memory of the plan.
int64_t CountSlots(const ParameterLayout& layout, const BucketPlan& buckets, int servers,
                   Placement placement,
                   std::optional<int64_t> max_slot_bytes = std::nullopt);

// PlanSlots with STRIPED, which needs no tensors.
SlotPlan PlanStripedSlots(const BucketPlan& buckets, int servers,
                          int64_t max_slot_bytes = kMaxSlotBytes);

// Elements that the server owns.
int64_t ServerElements(const SlotPlan& plan, int server);

// Parameters of the server that has most, by the mean of all servers: 1 where they are
// even, the number of servers where one has everything. Without parameters 1.
double ServerImbalance(const SlotPlan& plan);

// Payload bytes of one synchronous step, per direction (sent and received are equal).
int64_t WorkerStepBytes(const SlotPlan& plan);
int64_t ServerStepBytes(const SlotPlan& plan, int server, int workers);

}  // namespace psring

#endif  // PSRING_COMMON_SLOT_PLAN_H_
