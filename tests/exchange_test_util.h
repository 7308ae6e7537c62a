// What tests of whole exchanges have in common: a plan, gradients, workers that are
// threads, and what the servers have counted.
#ifndef PSRING_TESTS_EXCHANGE_TEST_UTIL_H_
#define PSRING_TESTS_EXCHANGE_TEST_UTIL_H_

#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/device_span.h"
#include "common/layout.h"
#include "common/mutex.h"
#include "common/slot_plan.h"
#include "common/status_matchers.h"
#include "common/time_source.h"
#include "common/wire_type.h"
#include "gtest/gtest.h"
#include "proto/experiment.pb.h"
#include "proto/record.pb.h"
#include "tests/parameter_server_cluster.h"
#include "worker/parameter_channel.h"
#include "worker/parameter_server_exchange.h"

namespace psring {

// Several buckets; one is smaller than three servers, one than two.
inline BucketPlan TestBuckets() {
  ParameterLayout layout;
  layout.Add("a", {1});
  layout.Add("b", {7, 19});
  layout.Add("c", {2});
  layout.Add("d", {5, 53});
  layout.Add("e", {11});
  return PlanBuckets(layout, /*cap_bytes=*/128, /*first_cap_bytes=*/64);
}

inline int64_t Count(const BucketPlan& plan) {
  int64_t count = 0;
  for (const Bucket& bucket : plan.buckets) count += bucket.range.count;
  return count;
}

inline Optimizer TestOptimizer() {
  Optimizer optimizer;
  optimizer.mutable_sgd()->set_learning_rate(0.1f);
  optimizer.mutable_sgd()->set_momentum(0.9f);
  optimizer.mutable_sgd()->set_weight_decay(0.01f);
  optimizer.mutable_schedule()->set_warmup_steps(3);
  return optimizer;
}

inline float InitialParameter(int64_t i) { return 1.0f / static_cast<float>(3 + i); }

// Depends on the parameters, so that a step with the wrong ones shows in all later ones.
inline float Gradient(int rank, int64_t step, int64_t i, float parameter) {
  if (i % 13 == 0) return -0.0f;
  const float sign = (rank + step + i) % 2 == 0 ? 1.0f : -1.0f;
  return sign * (0.1f + 100.0f * static_cast<float>(rank)) / static_cast<float>(1 + i) +
         parameter;
}

inline std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

// One worker: its buffers and its exchange.
struct Worker {
  Worker(int rank, const BucketPlan& buckets, ParameterServerCluster& cluster)
      : Worker(rank, buckets, cluster.plan(), cluster.NewChannels(rank), cluster.wire()) {
  }
  Worker(int rank, const BucketPlan& buckets, const SlotPlan& plan,
         std::vector<std::unique_ptr<ParameterChannel>> channels,
         const WireType& wire = {})
      : rank(rank),
        buckets(buckets),
        parameters(Count(buckets)),
        gradients(Count(buckets)),
        exchange(rank, plan, std::move(channels), &time, /*local_server=*/rank,
                 ParameterServerExchange::kNoWindow, wire) {
    if (rank != 0) return;
    for (int64_t i = 0; i < Count(buckets); ++i) parameters[i] = InitialParameter(i);
  }

  DeviceSpan Span(std::vector<float>& values) {
    return {.data = values.data(), .count = static_cast<int64_t>(values.size())};
  }
  absl::Status Bind() { return exchange.Bind(Span(parameters), Span(gradients)); }
  absl::Status Launch(int64_t step, const Bucket& bucket) {
    for (int64_t i = bucket.range.begin; i < bucket.range.end(); ++i) {
      gradients[i] = Gradient(rank, step, i, parameters[i]);
    }
    return exchange.Launch(step, bucket, ReadyEvent::Happened());
  }
  absl::Status LaunchAll(int64_t step) {
    for (const Bucket& bucket : buckets.buckets) {
      const absl::Status status = Launch(step, bucket);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  // A step after the one before, counted here; whether it was the last. `launched` is
  // called before it waits.
  bool MakeStep(const std::function<void()>& launched = [] {}) {
    EXPECT_OK(LaunchAll(steps));
    launched();
    const absl::StatusOr<StepReport> report = exchange.Finish(steps);
    EXPECT_OK(report);
    ++steps;
    return !report.ok() || report->finished;
  }

  const int rank;
  const BucketPlan& buckets;
  std::vector<float> parameters;
  std::vector<float> gradients;
  int64_t steps = 0;  // Made by MakeStep.
  const RealTime time;
  ParameterServerExchange exchange;
};

inline std::vector<std::unique_ptr<Worker>> MakeWorkers(int count,
                                                        const BucketPlan& buckets,
                                                        ParameterServerCluster& cluster) {
  std::vector<std::unique_ptr<Worker>> workers;
  for (int rank = 0; rank < count; ++rank) {
    workers.push_back(std::make_unique<Worker>(rank, buckets, cluster));
  }
  return workers;
}

inline void RunWorkers(std::vector<std::unique_ptr<Worker>>& workers,
                       const std::function<void(Worker&)>& body) {
  std::vector<std::thread> threads;
  for (const auto& worker : workers) {
    threads.emplace_back([&body, &worker] { body(*worker); });
  }
  for (std::thread& thread : threads) thread.join();
}

// What servers did with each contribution. Thread-safe.
class ContributionLog {
 public:
  std::function<void(const ContributionRecord&)> callback() {
    return [this](const ContributionRecord& record) {
      MutexLock lock(&mutex_);
      records_.push_back(record);
    };
  }
  std::vector<ContributionRecord> records() const {
    MutexLock lock(&mutex_);
    return records_;
  }
  int64_t CountOf(int slot, int rank) const {
    int64_t count = 0;
    for (const ContributionRecord& record : records()) {
      count += record.slot() == slot && record.rank() == rank ? 1 : 0;
    }
    return count;
  }

  // Every slot has counted so many contributions, none twice, and each one that was
  // applied made the version after the ones before. Where updates are of a round,
  // contributions to one share its version.
  void ExpectEachCountedOnce(const SlotPlan& plan, int64_t contributions,
                             bool rounds) const {
    std::set<std::tuple<int, int, int64_t>> seen;
    std::vector<int64_t> counted(plan.slots.size());
    std::vector<int64_t> version(plan.slots.size());
    for (const ContributionRecord& record : records()) {
      EXPECT_TRUE(seen.emplace(record.slot(), record.rank(), record.step()).second)
          << "twice: " << record.ShortDebugString();
      ++counted[record.slot()];
      if (record.outcome() != ContributionRecord::APPLIED) continue;
      int64_t& last = version[record.slot()];
      if (rounds) {
        EXPECT_GE(record.version() + 1, last) << record.ShortDebugString();
        EXPECT_LE(record.version(), last) << record.ShortDebugString();
        last = record.version() + 1;
      } else {
        EXPECT_EQ(record.version(), last++) << record.ShortDebugString();
      }
    }
    for (const Slot& slot : plan.slots) {
      EXPECT_EQ(counted[slot.index], contributions) << "slot " << slot.index;
    }
  }

 private:
  mutable Mutex mutex_;
  std::vector<ContributionRecord> records_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace psring

#endif  // PSRING_TESTS_EXCHANGE_TEST_UTIL_H_
