#include "experiments/probe/step_floor.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "common/wire_type.h"
#include "experiments/hosts/host_plan.h"
#include "experiments/traffic_formula.h"
#include "ring/algorithm.h"
#include "ring/algorithm_by_size.h"
#include "ring/bucket_operations.h"
#include "ring/move.h"

namespace psring {
namespace {

// What crosses from rack 0 to rack 1, and back.
struct CrossingBytes {
  int64_t out = 0;
  int64_t in = 0;

  void Add(int from_rack, int to_rack, int64_t bytes) {
    if (from_rack == to_rack) return;
    (from_rack == 0 ? out : in) += bytes;
  }
};

CrossingBytes BytesBetweenRacks(const JobSpec& spec, const JobPlan& plan,
                                const HostPlan& hosts) {
  const WireType wire = spec.arm().wire();
  CrossingBytes crossing;
  const auto rack_of = [&hosts](const char* role, int rank) {
    return hosts.hosts[hosts.HostOf(absl::StrCat(role, " ", rank))].rack;
  };
  const auto racks_of = [&](const char* role, int count) {
    std::vector<int> racks;
    for (int rank = 0; rank < count; ++rank) racks.push_back(rack_of(role, rank));
    return racks;
  };
  const std::vector<int> workers = racks_of("worker", spec.workers());
  const std::vector<int> servers = racks_of("server", spec.servers());
  for (int server = 0; server < spec.servers(); ++server) {
    const int64_t pushed = PushBytes(wire, plan.slots, server);
    const int64_t answered = ServerStepBytes(plan.slots, server, /*workers=*/1);
    for (const int worker : workers) {
      crossing.Add(worker, servers[server], pushed);
      crossing.Add(servers[server], worker, answered);
    }
  }
  if (!spec.arm().has_ring()) return crossing;
  const RingOrder order = RingOrderOf(spec);
  const AlgorithmBySize algorithms(spec.arm().ring());
  for (const Bucket& bucket : plan.buckets.buckets) {
    const int64_t count = bucket.range.count;
    for (int position = 0; position < spec.workers(); ++position) {
      MoveList moves;
      for (const OperationKind kind : BucketOperations(spec.arm().ring())) {
        AppendMoves(algorithms.For(wire.EncodedBytes(count)), kind, count, position,
                    spec.workers(), &moves);
      }
      for (int i = 0; i < moves.size(); ++i) {
        if (moves[i].kind != MoveKind::kSend) continue;
        crossing.Add(workers[order.RankAt(position)],
                     workers[order.RankAt(moves[i].peer)],
                     wire.EncodedBytes(moves[i].range.count));
      }
    }
  }
  return crossing;
}

}  // namespace

std::vector<LinkBytes> StepBytesOfLinks(const JobSpec& spec, const JobPlan& plan) {
  std::vector<LinkBytes> links;
  const auto add = [&links](const std::string& host, const LinkKind& kind, int64_t out,
                            int64_t in) {
    links.push_back({.host = host, .out = true, .kind = kind, .bytes = out});
    links.push_back({.host = host, .out = false, .kind = kind, .bytes = in});
  };
  const std::vector<EndpointFormula> endpoints = StepTraffic(spec, plan);
  if (!OnHosts(spec)) {
    for (const EndpointFormula& endpoint : endpoints) {
      add(endpoint.name, {}, endpoint.out, endpoint.in);
    }
    return links;
  }
  const HostPlan hosts = PlanHosts(spec);
  for (const PlannedHost& host : hosts.hosts) {
    add(host.name, KindOfHost(hosts, host), 0, 0);
  }
  for (const EndpointFormula& endpoint : endpoints) {
    const size_t out = 2 * static_cast<size_t>(hosts.HostOf(endpoint.name));
    links[out].bytes += endpoint.out - endpoint.local_out;
    links[out + 1].bytes += endpoint.in - endpoint.local_in;
  }
  if (hosts.racks_bit_s) {
    const CrossingBytes crossing = BytesBetweenRacks(spec, plan, hosts);
    add("rack 0", KindBetweenRacks(hosts), crossing.out, crossing.in);
  }
  return links;
}

absl::StatusOr<const ProbedLink*> MeasurementOf(const LinkBytes& link,
                                                const std::vector<ProbedLink>& probed) {
  const auto found = std::find_if(
      probed.begin(), probed.end(),
      [&link](const ProbedLink& candidate) { return candidate.link.kind == link.kind; });
  if (found == probed.end()) {
    return absl::NotFoundError(
        absl::StrCat("the link of ", link.host, " was not probed, nor one like it"));
  }
  if (found->is_void()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "the probe of the link of %s is void: %.1f %% of processor time was left",
        found->link.host, 100 * found->idle));
  }
  return &*found;
}

double SecondsOf(const ProbedLink& probed, bool out, int64_t bytes) {
  return static_cast<double>(bytes) / (out ? probed.out_bytes_s : probed.in_bytes_s);
}

absl::StatusOr<StepFloor> FloorOf(const JobSpec& spec,
                                  const std::vector<ProbedLink>& probed) {
  if (!MovesOverLinks(spec)) return absl::NotFoundError("nothing moves over links");
  if (probed.empty()) return absl::NotFoundError("no link was probed");
  StepFloor floor;
  for (const LinkBytes& link : StepBytesOfLinks(spec, PlanJob(spec))) {
    if (link.bytes == 0) continue;
    ASSIGN_OR_RETURN(const ProbedLink* const measured, MeasurementOf(link, probed));
    const double seconds = SecondsOf(*measured, link.out, link.bytes);
    if (seconds <= floor.seconds) continue;
    floor = {.seconds = seconds, .host = link.host, .out = link.out};
  }
  if (floor.seconds == 0) return absl::NotFoundError("nothing moves");
  return floor;
}

}  // namespace psring
