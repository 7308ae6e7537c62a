#include "experiments/traffic_formula.h"

#include "absl/strings/str_cat.h"
#include "ring/algorithm.h"
#include "ring/algorithm_by_size.h"
#include "ring/bucket_operations.h"
#include "ring/shared_memory_traffic.h"

namespace psring {
namespace {

OperationBytes RingBytes(const JobSpec& spec, const AlgorithmBySize& algorithms,
                         OperationKind kind, int64_t count, int position) {
  if (spec.arm().ring().transport() == RingMode::SHARED_MEMORY) {
    return SharedMemoryPayload(kind, count, position, spec.workers());
  }
  const WireType wire = spec.arm().wire();
  return PayloadBytes(algorithms.For(wire.EncodedBytes(count)), kind, count, position,
                      spec.workers(), wire.EncodedBytes(1));
}

}  // namespace

int64_t PushBytes(const WireType& wire, const SlotPlan& plan, int server) {
  int64_t bytes = 0;
  for (const int slot : plan.of_server[server]) {
    bytes += wire.EncodedBytes(plan.slots[slot].range.count);
  }
  return bytes;
}

std::vector<EndpointFormula> StepTraffic(const JobSpec& spec, const JobPlan& plan) {
  const WireType wire = spec.arm().wire();
  std::vector<EndpointFormula> endpoints;
  for (int rank = 0; rank < spec.workers(); ++rank) {
    EndpointFormula worker{.name = absl::StrCat("worker ", rank), .role = "worker"};
    if (spec.arm().has_parameter_server()) {
      for (int server = 0; server < spec.servers(); ++server) {
        worker.out += PushBytes(wire, plan.slots, server);
      }
      worker.in = WorkerStepBytes(plan.slots);
      if (PeerOnHost(spec, rank)) {
        worker.local_out = PushBytes(wire, plan.slots, rank);
        worker.local_in = ServerStepBytes(plan.slots, rank, /*workers=*/1);
      }
      worker.operations = static_cast<int64_t>(plan.slots.slots.size());
    } else if (spec.arm().has_ring()) {
      const int position = RingOrderOf(spec).PositionOf(rank);
      const RingMode& ring = spec.arm().ring();
      const AlgorithmBySize algorithms(ring);
      for (const Bucket& bucket : plan.buckets.buckets) {
        for (const OperationKind kind : BucketOperations(ring)) {
          const OperationBytes bytes =
              RingBytes(spec, algorithms, kind, bucket.range.count, position);
          worker.out += bytes.out;
          worker.in += bytes.in;
          ++worker.operations;
        }
      }
    }
    endpoints.push_back(worker);
  }
  for (int server = 0; server < spec.servers(); ++server) {
    const int64_t pushed = PushBytes(wire, plan.slots, server);
    const int64_t answered = ServerStepBytes(plan.slots, server, /*workers=*/1);
    // What goes between the worker and the server of one rank, where they share a host.
    const int64_t local = PeerOnHost(spec, server) ? 1 : 0;
    endpoints.push_back({.name = absl::StrCat("server ", server),
                         .role = "server",
                         .out = answered * spec.workers(),
                         .in = pushed * spec.workers(),
                         .local_out = answered * local,
                         .local_in = pushed * local});
  }
  return endpoints;
}

}  // namespace psring
