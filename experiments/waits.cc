#include "experiments/waits.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

namespace psring {
namespace {

// From then on it moves.
int64_t MovesFrom(const BucketWait& bucket) {
  return std::max(bucket.begun_ns, bucket.awaited_until_ns);
}

// Of so long a part of the time in which the bucket moved.
int64_t WorkingPart(const BucketWait& bucket, int64_t part_ns) {
  const int64_t moving_ns = bucket.done_ns - MovesFrom(bucket);
  if (part_ns == 0 || bucket.working_ns >= moving_ns) return part_ns;
  const double working_ns = static_cast<double>(bucket.working_ns) *
                            static_cast<double>(part_ns) / static_cast<double>(moving_ns);
  return std::min(part_ns, static_cast<int64_t>(working_ns));
}

// Between two moments at which some bucket's state changes.
class Cutter {
 public:
  explicit Cutter(std::span<const BucketWait> buckets)
      : buckets_(buckets), moving_ns_(buckets.size()) {}

  void Take(int64_t at, int64_t length_ns) {
    const BucketWait* awaited = nullptr;
    bool all_done = true;
    for (size_t i = 0; i < buckets_.size(); ++i) {
      const BucketWait& bucket = buckets_[i];
      if (bucket.done_ns <= at) continue;
      all_done = false;
      if (MovesFrom(bucket) <= at) {
        moving_ns_[i] += length_ns;
        return;
      }
      if (bucket.begun_ns <= at && awaited == nullptr) awaited = &bucket;
    }
    if (awaited != nullptr) {
      causes_.peer_late_ns += length_ns;
      late_ns_[awaited->awaited_rank] += length_ns;
    } else {
      (all_done ? causes_.working_ns : causes_.not_ready_ns) += length_ns;
    }
  }

  Causes Result() const {
    Causes causes = causes_;
    for (size_t i = 0; i < buckets_.size(); ++i) {
      const int64_t working_ns = WorkingPart(buckets_[i], moving_ns_[i]);
      causes.working_ns += working_ns;
      causes.on_wire_ns += moving_ns_[i] - working_ns;
    }
    const auto most = std::max_element(
        late_ns_.begin(), late_ns_.end(),
        [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most != late_ns_.end()) causes.waited_for = most->first;
    return causes;
  }

 private:
  const std::span<const BucketWait> buckets_;
  std::vector<int64_t> moving_ns_;  // By bucket, of what is nobody's fault.
  std::map<int, int64_t> late_ns_;  // By rank.
  Causes causes_;
};

}  // namespace

Causes CutByCause(std::span<const TimeSpan> exposed,
                  std::span<const BucketWait> buckets) {
  Cutter cutter(buckets);
  std::vector<int64_t> changes;
  for (const BucketWait& bucket : buckets) {
    for (const int64_t time :
         {bucket.begun_ns, bucket.awaited_until_ns, bucket.done_ns}) {
      changes.push_back(time);
    }
  }
  std::sort(changes.begin(), changes.end());
  auto change = changes.begin();
  for (const TimeSpan& span : exposed) {
    for (int64_t at = span.begin_ns; at < span.end_ns;) {
      while (change != changes.end() && *change <= at) ++change;
      const int64_t end =
          change == changes.end() ? span.end_ns : std::min(*change, span.end_ns);
      cutter.Take(at, end - at);
      at = end;
    }
  }
  return cutter.Result();
}

int64_t BackwardBegin(const StepRecord& step) {
  return step.start_ns() + step.recording_ns() + step.data_ns() + step.forward_ns();
}

int64_t FinishBegin(const StepRecord& step) {
  return BackwardBegin(step) + step.backward_ns();
}

std::vector<BucketWait> WaitsOf(int rank, std::span<const StepRecord* const> steps,
                                bool awaits_all, const AlignedClocks& clocks) {
  const StepRecord& own = *steps[rank];
  std::vector<BucketWait> waits;
  for (int bucket = 0; bucket < own.buckets_size(); ++bucket) {
    const BucketTimes& times = own.buckets(bucket);
    BucketWait& wait = waits.emplace_back();
    wait.begun_ns = std::max(times.ready_ns(), times.launched_ns());
    wait.done_ns = times.done_ns();
    wait.working_ns = times.working_ns();
    if (!awaits_all) {
      if (!own.has_waited_for()) continue;
      wait.awaited_until_ns = FinishBegin(own) + own.peer_late_ns();
      wait.awaited_rank = own.waited_for();
    }
    for (int peer = 0; awaits_all && peer < static_cast<int>(steps.size()); ++peer) {
      if (peer == rank || steps[peer] == nullptr) continue;
      if (bucket >= steps[peer]->buckets_size()) continue;
      const int64_t launched_ns =
          clocks.Translate(peer, steps[peer]->buckets(bucket).launched_ns(), rank);
      if (launched_ns <= wait.awaited_until_ns) continue;
      wait.awaited_until_ns = launched_ns;
      wait.awaited_rank = peer;
    }
    // Clocks are aligned with an error, and a bucket is never done before that.
    wait.awaited_until_ns = std::min(wait.awaited_until_ns, wait.done_ns);
  }
  return waits;
}

std::vector<TimeSpan> ExposedSpans(const StepRecord& step,
                                   std::span<const int64_t> bucket_bytes) {
  std::vector<TimeSpan> exposed;
  int64_t at = FinishBegin(step);
  const int64_t end = at + step.exposed_ns() + step.optimizer_ns();
  int64_t optimizer_left = step.optimizer_ns();
  const int count = std::min(step.buckets_size(), static_cast<int>(bucket_bytes.size()));
  // Buckets are done in order of index.
  int first = 0;
  while (first + 1 < count && step.buckets(first).done_ns() <= at) ++first;
  double bytes_left =
      std::accumulate(bucket_bytes.begin() + first, bucket_bytes.end(), 0.0);
  for (int bucket = first; bucket < count && optimizer_left > 0; ++bucket) {
    const auto bytes = static_cast<double>(bucket_bytes[bucket]);
    const bool last = bucket + 1 == count;
    const auto optimizer =
        last ? optimizer_left
             : static_cast<int64_t>(static_cast<double>(optimizer_left) * bytes /
                                    bytes_left);
    // Not so late that there is no time for what is left.
    const int64_t start =
        std::min(std::max(at, step.buckets(bucket).done_ns()), end - optimizer_left);
    if (start > at) exposed.push_back({.begin_ns = at, .end_ns = start});
    at = start + optimizer;
    bytes_left -= bytes;
    optimizer_left -= optimizer;
  }
  if (end - optimizer_left > at) {
    exposed.push_back({.begin_ns = at, .end_ns = end - optimizer_left});
  }
  return exposed;
}

}  // namespace psring
