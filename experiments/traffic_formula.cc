#include "experiments/traffic_formula.h"

#include "absl/strings/str_cat.h"
#include "ring/algorithm.h"
#include "ring/algorithm_by_size.h"
#include "ring/shared_memory_traffic.h"

namespace psring {

std::vector<EndpointFormula> StepTraffic(const JobSpec& spec, const JobPlan& plan) {
  std::vector<EndpointFormula> endpoints;
  for (int rank = 0; rank < spec.workers(); ++rank) {
    EndpointFormula worker{
        .name = absl::StrCat("worker ", rank), .role = "worker", .out = 0, .in = 0};
    if (spec.arm().has_parameter_server()) {
      worker.out = worker.in = WorkerStepBytes(plan.slots);
    } else if (spec.arm().has_ring()) {
      const int position = RingOrderOf(spec).PositionOf(rank);
      const AlgorithmBySize algorithms(spec.arm().ring());
      for (const Bucket& bucket : plan.buckets.buckets) {
        const OperationBytes bytes =
            spec.arm().ring().transport() == RingMode::SHARED_MEMORY
                ? SharedMemoryPayload(OperationKind::kAllReduce, bucket.range.count,
                                      position, spec.workers())
                : PayloadBytes(
                      algorithms.For(bucket.range.count * int64_t{sizeof(float)}),
                      OperationKind::kAllReduce, bucket.range.count, position,
                      spec.workers());
        worker.out += bytes.out;
        worker.in += bytes.in;
      }
    }
    endpoints.push_back(worker);
  }
  for (int server = 0; server < spec.servers(); ++server) {
    const int64_t bytes = ServerStepBytes(plan.slots, server, spec.workers());
    endpoints.push_back({.name = absl::StrCat("server ", server),
                         .role = "server",
                         .out = bytes,
                         .in = bytes});
  }
  return endpoints;
}

}  // namespace psring
