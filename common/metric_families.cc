#include "common/metric_families.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace psring {

MetricHistogram::MetricHistogram(std::vector<double> bounds)
    : bounds_(std::move(bounds)), counts_(bounds_.size()) {}

void MetricHistogram::Add(double value) {
  ++count_;
  sum_ += value;
  const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), value);
  if (bound != bounds_.end()) ++counts_[static_cast<size_t>(bound - bounds_.begin())];
}

void MetricFamilies::AddCounter(const std::string& name, const std::string& help,
                                const MetricLabels& labels, double value) {
  Add(name, help, prometheus::MetricType::Counter, labels).counter.value = value;
}

void MetricFamilies::AddGauge(const std::string& name, const std::string& help,
                              const MetricLabels& labels, double value) {
  Add(name, help, prometheus::MetricType::Gauge, labels).gauge.value = value;
}

void MetricFamilies::AddHistogram(const std::string& name, const std::string& help,
                                  const MetricLabels& labels,
                                  const MetricHistogram& histogram) {
  auto& metric = Add(name, help, prometheus::MetricType::Histogram, labels).histogram;
  metric.sample_count = histogram.count_;
  metric.sample_sum = histogram.sum_;
  uint64_t cumulative = 0;
  for (size_t i = 0; i < histogram.bounds_.size(); ++i) {
    cumulative += histogram.counts_[i];
    metric.bucket.push_back(
        {.cumulative_count = cumulative, .upper_bound = histogram.bounds_[i]});
  }
  metric.bucket.push_back({.cumulative_count = histogram.count_,
                           .upper_bound = std::numeric_limits<double>::infinity()});
}

prometheus::ClientMetric& MetricFamilies::Add(const std::string& name,
                                              const std::string& help,
                                              prometheus::MetricType type,
                                              const MetricLabels& labels) {
  auto family = std::find_if(
      families_.begin(), families_.end(),
      [&name](const prometheus::MetricFamily& known) { return known.name == name; });
  if (family == families_.end()) {
    families_.push_back({.name = name, .help = help, .type = type, .metric = {}});
    family = families_.end() - 1;
  }
  prometheus::ClientMetric& metric = family->metric.emplace_back();
  for (const MetricLabels* const list : {&common_, &labels}) {
    for (const auto& [label, value] : *list) {
      metric.label.push_back({.name = label, .value = value});
    }
  }
  return metric;
}

}  // namespace psring
