// Numbers as Prometheus wants them, put together by name.
#ifndef PSRING_COMMON_METRIC_FAMILIES_H_
#define PSRING_COMMON_METRIC_FAMILIES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "prometheus/metric_family.h"

namespace psring {

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// How often a value was at most each of some bounds.
class MetricHistogram {
 public:
  // Ascending.
  explicit MetricHistogram(std::vector<double> bounds);

  void Add(double value);

 private:
  friend class MetricFamilies;
  const std::vector<double> bounds_;
  std::vector<uint64_t> counts_;  // By bound, of those above the bound before.
  uint64_t count_ = 0;
  double sum_ = 0;
};

// Families in the order in which their names first came. A name has the same `help` each
// time, and its unit in it (prometheus.io/docs/practices/naming); counters end in _total.
class MetricFamilies {
 public:
  // `common`: labels that all metrics have.
  explicit MetricFamilies(MetricLabels common) : common_(std::move(common)) {}

  void AddCounter(const std::string& name, const std::string& help,
                  const MetricLabels& labels, double value);
  void AddGauge(const std::string& name, const std::string& help,
                const MetricLabels& labels, double value);
  void AddHistogram(const std::string& name, const std::string& help,
                    const MetricLabels& labels, const MetricHistogram& histogram);

  std::vector<prometheus::MetricFamily> Take() { return std::move(families_); }

 private:
  prometheus::ClientMetric& Add(const std::string& name, const std::string& help,
                                prometheus::MetricType type, const MetricLabels& labels);

  const MetricLabels common_;
  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace psring

#endif  // PSRING_COMMON_METRIC_FAMILIES_H_
