#include "experiments/communication.h"

#include <algorithm>

#include "experiments/waits.h"

namespace psring {
namespace {

double Milliseconds(int64_t nanoseconds) {
  return static_cast<double>(nanoseconds) * 1e-6;
}

double Ratio(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

std::optional<double> Overlap(int64_t hidden_ns, int64_t communication_ns) {
  if (communication_ns == 0) return std::nullopt;
  return Ratio(hidden_ns, communication_ns);
}

// What of the time from begin to end lies before `limit`.
int64_t Before(int64_t limit, int64_t begin, int64_t end) {
  return std::max<int64_t>(0, std::min(limit, end) - begin);
}

}  // namespace

void CommunicationMeter::Add(std::span<const StepRecord* const> steps) {
  for (const StepRecord* const step : steps) {
    if (step != nullptr) AddOwn(*step);
  }
  // Of a step that some rank has not come to, nobody knows who is the latest.
  if (awaits_all_ && steps.size() > 1 &&
      std::none_of(steps.begin(), steps.end(),
                   [](const StepRecord* step) { return step == nullptr; })) {
    AddSkew(steps);
  }
}

void CommunicationMeter::AddOwn(const StepRecord& step) {
  const auto count = static_cast<size_t>(step.buckets_size());
  if (buckets_.size() < count) buckets_.resize(count);
  const int64_t begin = BackwardBegin(step);
  const int64_t end = FinishBegin(step);
  int64_t until = 0;  // Buckets are launched in order; all before it has been counted.
  for (int bucket = 0; bucket < step.buckets_size(); ++bucket) {
    const BucketTimes& times = step.buckets(bucket);
    Sums& sums = buckets_[bucket];
    ++sums.records;
    if (end > begin) sums.launched += Ratio(times.launched_ns() - begin, end - begin);
    sums.communication_ns += times.done_ns() - times.launched_ns();
    sums.hidden_ns += Before(end, times.launched_ns(), times.done_ns());
    sums.working_ns += times.working_ns();
    const int64_t from = std::max(until, times.launched_ns());
    until = std::max(from, times.done_ns());
    communication_ns_ += until - from;
    hidden_ns_ += Before(end, from, until);
  }
}

void CommunicationMeter::AddSkew(std::span<const StepRecord* const> steps) {
  skew_ns_.resize(steps.size());
  times_last_.resize(steps.size());
  for (int bucket = 0; bucket < steps[0]->buckets_size(); ++bucket) {
    std::vector<int64_t> ready;  // On the clock of rank 0.
    for (size_t rank = 0; rank < steps.size(); ++rank) {
      if (bucket >= steps[rank]->buckets_size()) return;
      ready.push_back(clocks_.Translate(static_cast<int>(rank),
                                        steps[rank]->buckets(bucket).ready_ns(), 0));
    }
    const auto latest = std::max_element(ready.begin(), ready.end());
    ++times_last_[latest - ready.begin()];
    ++skews_;
    for (size_t rank = 0; rank < ready.size(); ++rank) {
      const int64_t skew = *latest - ready[rank];
      skew_ns_[rank] += skew;
      buckets_[bucket].skew_ns += skew;
      ++buckets_[bucket].skews;
      most_skew_ns_ = std::max(most_skew_ns_, skew);
    }
  }
}

Communication CommunicationMeter::Figures() const {
  Communication figures;
  for (const Sums& sums : buckets_) {
    const auto records = static_cast<double>(sums.records);
    BucketCommunication& bucket = figures.buckets.emplace_back();
    bucket.launched = sums.launched / records;
    bucket.milliseconds = Milliseconds(sums.communication_ns) / records;
    bucket.working_ms = Milliseconds(sums.working_ns) / records;
    bucket.overlap_ratio = Overlap(sums.hidden_ns, sums.communication_ns);
    if (sums.skews > 0) {
      bucket.arrival_skew_ms =
          Milliseconds(sums.skew_ns) / static_cast<double>(sums.skews);
    }
  }
  if (!figures.buckets.empty()) figures.first_launch = figures.buckets[0].launched;
  figures.overlap_ratio = Overlap(hidden_ns_, communication_ns_);
  if (skews_ == 0) return figures;
  ArrivalSkew& skew = figures.arrival_skew.emplace();
  for (const int64_t ns : skew_ns_) {
    skew.worker_ms.push_back(Milliseconds(ns) / static_cast<double>(skews_));
    skew.mean_ms += skew.worker_ms.back() / static_cast<double>(skew_ns_.size());
  }
  const auto last = std::max_element(times_last_.begin(), times_last_.end());
  skew.max_ms = Milliseconds(most_skew_ns_);
  skew.last = static_cast<int>(last - times_last_.begin());
  skew.last_share = Ratio(*last, skews_);
  skew.error_ms = Milliseconds(clocks_.error_ns());
  return figures;
}

}  // namespace psring
