#include "common/slot_plan.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include "glog/logging.h"

namespace psring {
namespace {

constexpr int64_t kFloat = sizeof(float);
// Of slots where tensors stay whole.
constexpr int64_t kLeastSlotBytes = 32 << 10;
constexpr int64_t kSlotsOfTheBusiest = 256;

// What a server owns of a bucket without a gap.
struct Run {
  int bucket = 0;
  int server = 0;
  Range range;
};

int64_t Pieces(int64_t count, int64_t max_count) {
  return count / max_count + (count % max_count > 0 ? 1 : 0);
}

int64_t MaxCount(int64_t max_slot_bytes) {
  const int64_t max_count = max_slot_bytes / kFloat;
  CHECK_GT(max_count, 0);
  return max_count;
}

SlotPlan EmptyPlan(const BucketPlan& buckets, int servers, int64_t slots) {
  CHECK_LE(slots, kMostSlots);
  SlotPlan plan;
  plan.servers = servers;
  plan.slots.reserve(slots);
  plan.of_bucket.resize(buckets.buckets.size());
  plan.of_server.resize(servers);
  return plan;
}

void Cut(const Run& run, int64_t max_count, SlotPlan* plan) {
  const int64_t pieces = Pieces(run.range.count, max_count);
  for (int64_t piece = 0; piece < pieces; ++piece) {
    Range range = PartitionRange(run.range.count, pieces, piece);
    range.begin += run.range.begin;
    const int index = static_cast<int>(plan->slots.size());
    plan->slots.push_back(
        {.index = index, .bucket = run.bucket, .server = run.server, .range = range});
    plan->of_bucket[run.bucket].push_back(index);
    plan->of_server[run.server].push_back(index);
  }
}

int64_t CountStriped(const BucketPlan& buckets, int servers, int64_t max_count) {
  CHECK_GT(servers, 0);
  int64_t slots = 0;
  for (const Bucket& bucket : buckets.buckets) {
    // Parts have one of two sizes, the first one's and the last one's.
    const int64_t larger = bucket.range.count % servers;
    slots +=
        larger * Pieces(PartitionRange(bucket.range.count, servers, 0).count, max_count);
    slots +=
        (servers - larger) *
        Pieces(PartitionRange(bucket.range.count, servers, servers - 1).count, max_count);
  }
  return slots;
}

// Whole tensors: the server of each, by index, and what each server has.
struct Owners {
  std::vector<int> of_tensor;
  std::vector<int64_t> elements;
};

Owners OwnersBySize(const std::vector<Tensor>& tensors, int servers) {
  Owners owners{.of_tensor = std::vector<int>(tensors.size(), 0),
                .elements = std::vector<int64_t>(servers, 0)};
  std::vector<int> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&tensors](int a, int b) {
    return tensors[a].range.count > tensors[b].range.count;
  });
  // Elements and server, the least first.
  using Load = std::pair<int64_t, int>;
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (int server = 0; server < servers; ++server) loads.emplace(0, server);
  for (const int tensor : order) {
    const int server = loads.top().second;
    loads.pop();
    owners.of_tensor[tensor] = server;
    owners.elements[server] += tensors[tensor].range.count;
    loads.emplace(owners.elements[server], server);
  }
  return owners;
}

Owners OwnersInTurn(const std::vector<Tensor>& tensors, int servers) {
  Owners owners{.of_tensor = std::vector<int>(tensors.size(), 0),
                .elements = std::vector<int64_t>(servers, 0)};
  int next = 0;
  for (size_t tensor = 0; tensor < tensors.size(); ++tensor) {
    if (tensors[tensor].range.count == 0) continue;
    owners.of_tensor[tensor] = next;
    owners.elements[next] += tensors[tensor].range.count;
    next = (next + 1) % servers;
  }
  return owners;
}

Owners OwnersOf(const std::vector<Tensor>& tensors, int servers, Placement placement) {
  CHECK_GT(servers, 0);
  switch (placement) {
    case ParameterServerMode::BY_TENSOR_SIZE:
      return OwnersBySize(tensors, servers);
    case ParameterServerMode::BY_TENSOR_ROUND_ROBIN:
      return OwnersInTurn(tensors, servers);
    default:
      CHECK_EQ(placement, ParameterServerMode::SINGLE);
      return OwnersInTurn(tensors, 1);
  }
}

// Of one bucket, by server and range.
std::vector<Run> RunsOf(const Bucket& bucket, const std::vector<Tensor>& tensors,
                        const Owners& owners) {
  std::vector<Run> runs;
  for (int t = bucket.first_tensor; t < bucket.first_tensor + bucket.tensor_count; ++t) {
    const Range& range = tensors[t].range;
    if (range.count == 0) continue;
    const int server = owners.of_tensor[t];
    if (!runs.empty() && runs.back().server == server) {
      runs.back().range.count += range.count;
    } else {
      runs.push_back({.bucket = bucket.index, .server = server, .range = range});
    }
  }
  std::stable_sort(runs.begin(), runs.end(),
                   [](const Run& a, const Run& b) { return a.server < b.server; });
  return runs;
}

int64_t CountWhole(const ParameterLayout& layout, const BucketPlan& buckets,
                   const Owners& owners, int64_t max_count) {
  int64_t slots = 0;
  for (const Bucket& bucket : buckets.buckets) {
    for (const Run& run : RunsOf(bucket, layout.tensors(), owners)) {
      slots += Pieces(run.range.count, max_count);
    }
  }
  return slots;
}

int64_t WholeSlotBytes(const Owners& owners) {
  const int64_t busiest =
      *std::max_element(owners.elements.begin(), owners.elements.end());
  // Elements first: their bytes times anything might not fit.
  return std::clamp(busiest / kSlotsOfTheBusiest * kFloat, kLeastSlotBytes,
                    kMaxSlotBytes);
}

}  // namespace

SlotPlan PlanStripedSlots(const BucketPlan& buckets, int servers,
                          int64_t max_slot_bytes) {
  const int64_t max_count = MaxCount(max_slot_bytes);
  SlotPlan plan = EmptyPlan(buckets, servers, CountStriped(buckets, servers, max_count));
  for (const Bucket& bucket : buckets.buckets) {
    for (int server = 0; server < servers; ++server) {
      Range part = PartitionRange(bucket.range.count, servers, server);
      part.begin += bucket.range.begin;
      Cut({.bucket = bucket.index, .server = server, .range = part}, max_count, &plan);
    }
  }
  return plan;
}

SlotPlan PlanSlots(const ParameterLayout& layout, const BucketPlan& buckets, int servers,
                   Placement placement, std::optional<int64_t> max_slot_bytes) {
  if (placement == ParameterServerMode::STRIPED) {
    return PlanStripedSlots(buckets, servers, max_slot_bytes.value_or(kMaxSlotBytes));
  }
  const Owners owners = OwnersOf(layout.tensors(), servers, placement);
  const int64_t max_count = MaxCount(max_slot_bytes.value_or(WholeSlotBytes(owners)));
  SlotPlan plan =
      EmptyPlan(buckets, servers, CountWhole(layout, buckets, owners, max_count));
  for (const Bucket& bucket : buckets.buckets) {
    for (const Run& run : RunsOf(bucket, layout.tensors(), owners)) {
      Cut(run, max_count, &plan);
    }
  }
  return plan;
}

int64_t CountSlots(const ParameterLayout& layout, const BucketPlan& buckets, int servers,
                   Placement placement, std::optional<int64_t> max_slot_bytes) {
  if (placement == ParameterServerMode::STRIPED) {
    return CountStriped(buckets, servers,
                        MaxCount(max_slot_bytes.value_or(kMaxSlotBytes)));
  }
  const Owners owners = OwnersOf(layout.tensors(), servers, placement);
  return CountWhole(layout, buckets, owners,
                    MaxCount(max_slot_bytes.value_or(WholeSlotBytes(owners))));
}

int64_t ServerElements(const SlotPlan& plan, int server) {
  int64_t count = 0;
  for (const int slot : plan.of_server[server]) count += plan.slots[slot].range.count;
  return count;
}

double ServerImbalance(const SlotPlan& plan) {
  int64_t most = 0;
  int64_t all = 0;
  for (int server = 0; server < plan.servers; ++server) {
    const int64_t count = ServerElements(plan, server);
    most = std::max(most, count);
    all += count;
  }
  if (all == 0) return 1;
  return static_cast<double>(most) * plan.servers / static_cast<double>(all);
}

int64_t WorkerStepBytes(const SlotPlan& plan) {
  int64_t count = 0;
  for (const Slot& slot : plan.slots) count += slot.range.count;
  return count * kFloat;
}

int64_t ServerStepBytes(const SlotPlan& plan, int server, int workers) {
  return ServerElements(plan, server) * kFloat * workers;
}

}  // namespace psring
