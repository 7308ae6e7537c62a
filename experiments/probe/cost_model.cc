#include "experiments/probe/cost_model.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/job_plan.h"
#include "common/link_delay.h"
#include "common/status_macros.h"
#include "common/wire_type.h"
#include "experiments/probe/step_floor.h"
#include "ring/algorithm.h"
#include "ring/algorithm_by_size.h"
#include "ring/bucket_operations.h"

namespace psring {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

// Messages one after the other, and bytes that the busiest rank adds.
struct Shape {
  double messages = 0;
  double added_bytes = 0;
  // What a rank receives and what it sends overlap.
  bool both_ways = true;
};

// Sharded: of a reduce-scatter and an all-gather (ring/algorithm.cc), of which only the
// first adds; else of an all-reduce.
Shape ShapeOf(Algorithm algorithm, int workers, int64_t bytes, bool sharded) {
  const auto n = static_cast<double>(workers);
  const auto m = static_cast<double>(bytes);
  const double operations = sharded ? 2 : 1;
  switch (algorithm) {
    case RingMode::HALVING_DOUBLING: {
      const unsigned power = std::bit_floor(static_cast<unsigned>(workers));
      const double levels = std::countr_zero(power);
      const bool small = !sharded && bytes <= kDoublingBytes;
      Shape shape{.messages = small ? levels : 2 * levels,
                  .added_bytes = small ? levels * m : (power - 1) * m / power};
      if (static_cast<int>(power) < workers) {
        shape.messages += 2 * operations;
        shape.added_bytes += m;
      }
      return shape;
    }
    case RingMode::TREE: {
      const double levels = std::bit_width(static_cast<unsigned>(workers - 1));
      return {.messages = operations * 2 * levels,
              .added_bytes = levels * m,
              .both_ways = false};
    }
    case RingMode::GATHER_BROADCAST:
      return {.messages = operations * 2, .added_bytes = (n - 1) * m, .both_ways = false};
    default:
      return {.messages = 2 * (n - 1), .added_bytes = (n - 1) / n * m};
  }
}

// The measured links of the arm's processes, by direction, and their common figures.
class Ground {
 public:
  static absl::StatusOr<Ground> Of(const std::vector<LinkBytes>& links,
                                   const std::vector<ProbedLink>& probed) {
    Ground ground;
    for (const LinkBytes& link : links) {
      if (link.bytes == 0) continue;
      ASSIGN_OR_RETURN(const ProbedLink* const measured, MeasurementOf(link, probed));
      ground.by_host_[link.host] = measured;
      ground.latency_ =
          std::max(ground.latency_, absl::ToDoubleSeconds(measured->latency));
      ground.busiest_ =
          std::max(ground.busiest_, SecondsOf(*measured, link.out, link.bytes));
    }
    if (ground.by_host_.empty()) return absl::NotFoundError("nothing moves");
    return ground;
  }

  double latency() const { return latency_; }
  double busiest() const { return busiest_; }  // Seconds of the busiest link.
  double Seconds(const std::string& host, bool out, int64_t bytes) const {
    const auto found = by_host_.find(host);
    return found == by_host_.end() ? 0 : SecondsOf(*found->second, out, bytes);
  }

 private:
  std::map<std::string, const ProbedLink*> by_host_;
  double latency_ = 0;
  double busiest_ = 0;
};

// That is set, of one message: between neighbours of the ring, or to a server.
absl::Duration LongestDelay(const JobSpec& spec) {
  absl::Duration longest = absl::ZeroDuration();
  const int workers = spec.workers();
  const RingOrder order = RingOrderOf(spec);
  for (int position = 0; position < workers; ++position) {
    const int rank = order.RankAt(position);
    if (spec.arm().has_ring()) {
      const int next = order.RankAt((position + 1) % workers);
      longest = std::max(longest, DelayBetweenWorkers(spec, rank, next));
    }
    for (int server = 0; server < spec.servers(); ++server) {
      longest = std::max(longest, DelayToServer(spec, rank, server));
    }
  }
  return longest;
}

ExchangeCost OfRing(const JobSpec& spec, const JobPlan& plan, const Ground& ground,
                    const ArithmeticRates& rates) {
  const int workers = spec.workers();
  const RingOrder order = RingOrderOf(spec);
  const AlgorithmBySize algorithms(spec.arm().ring());
  const WireType wire = spec.arm().wire();
  const double latency = ground.latency() + absl::ToDoubleSeconds(LongestDelay(spec));
  ExchangeCost cost;
  for (const Bucket& bucket : plan.buckets.buckets) {
    const int64_t bytes = bucket.range.count * kFloatBytes;
    const Algorithm algorithm = algorithms.For(wire.EncodedBytes(bucket.range.count));
    const Shape shape =
        ShapeOf(algorithm, workers, bytes, spec.arm().ring().sharded_optimizer());
    double longest = 0;
    for (int position = 0; position < workers; ++position) {
      OperationBytes moved;
      for (const OperationKind kind : BucketOperations(spec.arm().ring())) {
        const OperationBytes of_operation = PayloadBytes(
            algorithm, kind, bucket.range.count, position, workers, wire.EncodedBytes(1));
        moved.out += of_operation.out;
        moved.in += of_operation.in;
      }
      const std::string host = absl::StrCat("worker ", order.RankAt(position));
      const double out = ground.Seconds(host, /*out=*/true, moved.out);
      const double in = ground.Seconds(host, /*out=*/false, moved.in);
      longest = std::max(longest, shape.both_ways ? std::max(out, in) : out + in);
    }
    cost.latency += shape.messages * latency;
    cost.transfer += longest;
    cost.arithmetic += shape.added_bytes / rates.add;
  }
  // A link between racks is in none of the ranks' own times.
  cost.transfer = std::max(cost.transfer, ground.busiest());
  return cost;
}

ExchangeCost OfServers(const JobSpec& spec, const JobPlan& plan, const Ground& ground,
                       const ArithmeticRates& rates) {
  const int last_bucket = static_cast<int>(plan.buckets.buckets.size()) - 1;
  double last_answers = 0;
  int64_t most_bytes = 0;
  for (int server = 0; server < spec.servers(); ++server) {
    int64_t last_bytes = 0;
    for (const int slot : plan.slots.of_server[server]) {
      if (plan.slots.slots[slot].bucket != last_bucket) continue;
      last_bytes += plan.slots.slots[slot].range.count * kFloatBytes;
    }
    // The answer to a worker on the same host is on no link.
    const std::optional<int> local = PeerOnHost(spec, server);
    const std::string host =
        local ? absl::StrCat("worker ", *local) : absl::StrCat("server ", server);
    const int64_t answers = spec.workers() - (local ? 1 : 0);
    last_answers =
        std::max(last_answers, ground.Seconds(host, /*out=*/true, last_bytes * answers));
    most_bytes =
        std::max(most_bytes, ServerStepBytes(plan.slots, server, spec.workers()));
  }
  return {.latency = 2 * (ground.latency() + absl::ToDoubleSeconds(LongestDelay(spec))),
          .transfer = ground.busiest() + last_answers,
          .arithmetic = static_cast<double>(most_bytes) / rates.apply};
}

}  // namespace

absl::StatusOr<ExchangeCost> PredictExchange(const JobSpec& spec,
                                             const std::vector<ProbedLink>& probed,
                                             const ArithmeticRates& rates) {
  if (!MovesOverLinks(spec)) return absl::NotFoundError("nothing moves over links");
  const JobPlan plan = PlanJob(spec);
  ASSIGN_OR_RETURN(const Ground ground, Ground::Of(StepBytesOfLinks(spec, plan), probed));
  return spec.arm().has_ring() ? OfRing(spec, plan, ground, rates)
                               : OfServers(spec, plan, ground, rates);
}

}  // namespace psring
