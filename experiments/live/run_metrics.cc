#include "experiments/live/run_metrics.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "common/metric_families.h"
#include "experiments/hosts/link_reading.h"
#include "experiments/live/live_state.h"

namespace psring {

std::vector<prometheus::MetricFamily> RunMetrics::Collect() const {
  const std::optional<LiveWatch::Seen> seen = watch_->Now();
  if (!seen) return {};
  MetricFamilies families(
      {{"arm", seen->spec.arm().name()},
       {"seed", absl::StrCat(seen->spec.experiment().training().seed())}});
  families.AddGauge("psring_run_steps", "Steps that each worker of the run is to make.",
                    {}, static_cast<double>(seen->spec.steps()));
  for (const LiveWorker& worker : seen->state.workers) {
    families.AddGauge("psring_run_worker_steps",
                      "Steps that a worker has reported, of this process's life.",
                      {{"worker", absl::StrCat(worker.rank)}},
                      static_cast<double>(worker.steps));
  }
  if (!seen->reading) return families.Take();
  for (const LinkReading& link : seen->reading->links) {
    const MetricLabels labels = {{"host", link.host}, {"direction", link.direction()}};
    families.AddCounter("psring_link_bytes_total",
                        "Bytes of Ethernet frames that have left the queue of an "
                        "emulated host's link.",
                        labels, static_cast<double>(link.bytes));
    families.AddCounter("psring_link_dropped_packets_total",
                        "Packets that the link's queue had no room for.", labels,
                        static_cast<double>(link.dropped));
    families.AddGauge("psring_link_backlog_bytes",
                      "Bytes that wait in the link's queue at this moment.", labels,
                      static_cast<double>(link.backlog_bytes));
  }
  return families.Take();
}

}  // namespace psring
