// What the launcher tells Prometheus of the run that goes on.
#ifndef PSRING_EXPERIMENTS_LIVE_RUN_METRICS_H_
#define PSRING_EXPERIMENTS_LIVE_RUN_METRICS_H_

#include <vector>

#include "experiments/live/live_watch.h"
#include "prometheus/collectable.h"

namespace psring {

// The same numbers as in the live view, and of emulated hosts the kernel's counters.
// experiments/README.md lists the metrics. Between two runs there are none. Any thread.
class RunMetrics final : public prometheus::Collectable {
 public:
  // `watch` outlives this.
  explicit RunMetrics(const LiveWatch* watch) : watch_(watch) {}

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const LiveWatch* const watch_;
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_LIVE_RUN_METRICS_H_
