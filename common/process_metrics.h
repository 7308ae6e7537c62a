// What a worker or a server tells Prometheus.
#ifndef PSRING_COMMON_PROCESS_METRICS_H_
#define PSRING_COMMON_PROCESS_METRICS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/gradient_exchange.h"
#include "common/metric_families.h"
#include "common/mutex.h"
#include "prometheus/collectable.h"
#include "proto/coordinator.pb.h"
#include "proto/record.pb.h"

namespace psring {

// Sums up the records that the process sends to the coordinator, and asks for its traffic
// when it is asked itself: every number is one that is recorded anyway. common/README.md
// lists the metrics. Any thread.
class ProcessMetrics final : public prometheus::Collectable {
 public:
  explicit ProcessMetrics(const Member& member);

  // Once it is known.
  void SetJob(const JobSpec& spec);
  void Add(const RecordBatch& batch);
  // Who knows the traffic so far from now on; null: nobody, and what was known last
  // stays. Not called any more when this has returned.
  void SetTraffic(std::function<ExchangeTraffic()> traffic);

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  void AddStep(const StepRecord& step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddContribution(const ContributionRecord& contribution)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CollectWorker(MetricFamilies* families) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CollectServer(MetricFamilies* families) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CollectTraffic(MetricFamilies* families) const;

  const Member member_;
  mutable Mutex traffic_mutex_;
  std::function<ExchangeTraffic()> traffic_ ABSL_GUARDED_BY(traffic_mutex_);
  std::optional<ExchangeTraffic> last_traffic_ ABSL_GUARDED_BY(traffic_mutex_);

  mutable Mutex mutex_;
  std::string job_ ABSL_GUARDED_BY(mutex_);
  std::string arm_ ABSL_GUARDED_BY(mutex_);
  int64_t steps_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t samples_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t skipped_buckets_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<double> loss_ ABSL_GUARDED_BY(mutex_);      // Of the last step with one.
  std::optional<double> accuracy_ ABSL_GUARDED_BY(mutex_);  // Of the last evaluation.
  std::map<std::string, int64_t> parts_ns_ ABSL_GUARDED_BY(mutex_);
  MetricHistogram step_seconds_ ABSL_GUARDED_BY(mutex_);
  // By rank of the worker, and what became of them.
  std::map<std::pair<int, ContributionRecord::Outcome>, int64_t> contributions_
      ABSL_GUARDED_BY(mutex_);
  std::map<int, int64_t> clock_lags_ ABSL_GUARDED_BY(mutex_);  // The last, by rank.
  MetricHistogram staleness_ ABSL_GUARDED_BY(mutex_);          // Of applied ones.
};

// While one lives, `metrics` asks `traffic`. Null metrics: nobody does.
class MeteredTraffic {
 public:
  MeteredTraffic(ProcessMetrics* metrics, std::function<ExchangeTraffic()> traffic)
      : metrics_(metrics) {
    if (metrics_ != nullptr) metrics_->SetTraffic(std::move(traffic));
  }
  ~MeteredTraffic() {
    if (metrics_ != nullptr) metrics_->SetTraffic(nullptr);
  }
  MeteredTraffic(const MeteredTraffic&) = delete;
  MeteredTraffic& operator=(const MeteredTraffic&) = delete;

 private:
  ProcessMetrics* const metrics_;
};

}  // namespace psring

#endif  // PSRING_COMMON_PROCESS_METRICS_H_
