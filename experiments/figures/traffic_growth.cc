#include "experiments/figures/traffic_growth.h"

#include <algorithm>

#include "common/job_plan.h"
#include "common/layout.h"
#include "common/status_macros.h"
#include "experiments/figures/figure_model.h"
#include "experiments/traffic_formula.h"
#include "glog/logging.h"
#include "proto/coordinator.pb.h"

namespace psring {
namespace {

constexpr ExchangeWay kWays[] = {ExchangeWay::kOneServer, ExchangeWay::kDedicatedServers,
                                 ExchangeWay::kRing, ExchangeWay::kColocatedServers};
// So close that a line between two of them is the curve.
constexpr int kWorkers[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, kMostFigureWorkers};

JobSpec JobOf(ExchangeWay way, const ParameterLayout& layout, int workers) {
  JobSpec spec = FigureJob(layout, workers);
  Arm& arm = *spec.mutable_arm();
  arm.set_name(ToString(way));
  if (way == ExchangeWay::kRing) {
    arm.mutable_ring();
    return spec;
  }
  arm.mutable_parameter_server()->mutable_sync();
  spec.set_servers(way == ExchangeWay::kOneServer ? 1 : workers);
  if (way == ExchangeWay::kColocatedServers) {
    arm.mutable_cluster()->mutable_hosts()->set_colocated_servers(true);
  }
  return spec;
}

// Of the busiest link. Endpoints that share a host share its link.
int64_t BusiestBytes(const JobSpec& spec) {
  const std::vector<EndpointFormula> endpoints = StepTraffic(spec, PlanJob(spec));
  int64_t busiest = 0;
  for (int i = 0; i < static_cast<int>(endpoints.size()); ++i) {
    const bool server = i >= spec.workers();
    const int rank = server ? i - spec.workers() : i;
    const bool shares = PeerOnHost(spec, rank).has_value();
    if (server && shares) continue;  // Comes with its worker.
    int64_t out = endpoints[i].out;
    int64_t in = endpoints[i].in;
    if (shares) {
      const EndpointFormula& other = endpoints[spec.workers() + rank];
      out += other.out - endpoints[i].local_out - other.local_out;
      in += other.in - endpoints[i].local_in - other.local_in;
    }
    busiest = std::max({busiest, out, in});
  }
  return busiest;
}

}  // namespace

const char* ToString(ExchangeWay way) {
  switch (way) {
    case ExchangeWay::kOneServer:
      return "one server";
    case ExchangeWay::kDedicatedServers:
      return "N dedicated servers";
    case ExchangeWay::kColocatedServers:
      return "N colocated servers";
    case ExchangeWay::kRing:
      return "ring";
  }
  return "";
}

int64_t TrafficGrowth::BytesOf(ExchangeWay way, int workers) const {
  const auto point = std::find_if(
      points.begin(), points.end(),
      [&](const TrafficPoint& one) { return one.way == way && one.workers == workers; });
  CHECK(point != points.end()) << ToString(way) << ", " << workers;
  return point->bytes;
}

absl::StatusOr<TrafficGrowth> GrowthOf(const std::string& model) {
  const ParameterLayout layout = FigureLayout(model);
  TrafficGrowth growth = {.model = model, .model_bytes = layout.bytes(), .points = {}};
  for (const ExchangeWay way : kWays) {
    for (const int workers : kWorkers) {
      const JobSpec spec = JobOf(way, layout, workers);
      RETURN_IF_ERROR(CheckPlan(spec));
      growth.points.push_back(
          {.way = way, .workers = workers, .bytes = BusiestBytes(spec)});
    }
  }
  return growth;
}

}  // namespace psring
