// How the traffic of the busiest link grows with the number of workers. Pure.
#ifndef PSRING_EXPERIMENTS_FIGURES_TRAFFIC_GROWTH_H_
#define PSRING_EXPERIMENTS_FIGURES_TRAFFIC_GROWTH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace psring {

// Who exchanges how, with N workers.
enum class ExchangeWay {
  kOneServer,         // One server for all.
  kDedicatedServers,  // N servers on hosts of their own.
  kRing,
  kColocatedServers,  // N servers, each on the host of a worker.
};

// "one server"
const char* ToString(ExchangeWay way);

struct TrafficPoint {
  ExchangeWay way = ExchangeWay::kRing;
  int workers = 0;
  // Payload per step of the link that has most, in its busier direction; of the servers
  // and workers that share a host, what leaves or enters the host.
  int64_t bytes = 0;
};

struct TrafficGrowth {
  std::string model;
  int64_t model_bytes = 0;           // Of its parameters, and of its gradients.
  std::vector<TrafficPoint> points;  // By way, then by workers.

  // Of a number of workers that there is.
  int64_t BytesOf(ExchangeWay way, int workers) const;
};

inline constexpr int kMostFigureWorkers = 64;

// With 1 to kMostFigureWorkers workers, from the formula that counted traffic is held
// against (experiments/traffic_formula.h). Requires one of FigureModels. InvalidArgument:
// its plan would have too many slots.
absl::StatusOr<TrafficGrowth> GrowthOf(const std::string& model);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_FIGURES_TRAFFIC_GROWTH_H_
