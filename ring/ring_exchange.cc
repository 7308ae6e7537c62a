#include "ring/ring_exchange.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/arithmetic.h"
#include "common/status_macros.h"

namespace psring {
namespace {

// Floats that are in the cache from the mean to the optimizer.
constexpr size_t kUpdatedAtOnce = 8 * 1024;

int64_t LargestCount(const BucketPlan& plan) {
  int64_t largest = 0;
  for (const Bucket& bucket : plan.buckets) {
    largest = std::max(largest, bucket.range.count);
  }
  return largest;
}

}  // namespace

RingExchange::RingExchange(int ranks, BucketPlan plan, const Optimizer& optimizer,
                           std::shared_ptr<StepConstantsSource> constants,
                           std::unique_ptr<Collectives> collectives,
                           const TimeSource* time, const RingExchangeOptions& options)
    : plan_(std::move(plan)),
      sharded_(options.shard.has_value()),
      contributors_(options.contributors.value_or(Contributors(ranks))),
      constants_(std::move(constants)),
      time_(time),
      collectives_(std::move(collectives)),
      sum_(options.wire, LargestCount(plan_), options.wire_memory),
      order_(RangesOf(plan_)),
      done_(plan_.buckets.size()),
      working_(plan_.buckets.size()) {
  for (const Bucket& bucket : plan_.buckets) {
    Range own = bucket.range;
    if (options.shard) {
      own = PartitionRange(bucket.range.count, ranks, *options.shard);
      own.begin += bucket.range.begin;
    }
    own_.push_back(own);
    optimizers_.emplace_back(optimizer, own.count, options.state_memory);
  }
}

RingExchange::~RingExchange() {
  Abort(absl::CancelledError("the exchange was destroyed"));
  if (thread_.joinable()) thread_.join();
}

absl::Status RingExchange::Bind(DeviceSpan parameters, DeviceSpan gradients) {
  RETURN_IF_ERROR(status());
  RETURN_IF_ERROR(order_.Bind(parameters, gradients));
  parameters_ = parameters;
  gradients_ = gradients;
  if (const absl::Status sent = collectives_->Broadcast(parameters); !sent.ok()) {
    Abort(sent);
    return status();
  }
  thread_ = std::thread([this] { RunThread(); });
  return absl::OkStatus();
}

absl::Status RingExchange::Launch(int64_t step, const Bucket& bucket,
                                  const ReadyEvent& ready) {
  RETURN_IF_ERROR(status());
  RETURN_IF_ERROR(order_.Launch(step, bucket));
  MutexLock lock(&mutex_);
  step_ = step;
  queue_.push_back({.step = step, .bucket = bucket, .ready = ready});
  // Nothing is left to hide the last sum behind: Finish makes it without a hand-over.
  if (bucket.index + 1 < static_cast<int>(plan_.buckets.size())) changed_.NotifyAll();
  return absl::OkStatus();
}

absl::StatusOr<StepReport> RingExchange::Finish(int64_t step) {
  RETURN_IF_ERROR(AwaitUpdated(0));
  RETURN_IF_ERROR(order_.CheckFinish(step));
  {
    MutexLock lock(&mutex_);
    finishing_ = time_->Elapsed();
  }
  const absl::Status updated = AwaitUpdated(plan_.buckets.size());
  MutexLock lock(&mutex_);
  finishing_.reset();
  RETURN_IF_ERROR(updated);
  order_.EndStep(step + 1);
  exchanged_ = updated_ = 0;
  return StepReport{.optimizer = std::exchange(optimizer_, absl::ZeroDuration()),
                    .bucket_done = done_,
                    .bucket_working = working_,
                    .operations = std::exchange(operations_, 0),
                    .drift = sum_.TakeDrift()};
}

ExchangeTraffic RingExchange::traffic() const { return collectives_->traffic(); }

std::vector<StateSlice> RingExchange::state() {
  std::vector<StateSlice> slices;
  for (size_t bucket = 0; bucket < own_.size(); ++bucket) {
    slices.push_back({.range = own_[bucket], .state = optimizers_[bucket].state()});
  }
  return slices;
}

void RingExchange::Abort(absl::Status reason) {
  {
    MutexLock lock(&mutex_);
    if (status_.ok()) status_ = reason;
    changed_.NotifyAll();
  }
  collectives_->Abort(std::move(reason));
}

void RingExchange::RunThread() {
  for (;;) {
    {
      MutexLock lock(&mutex_);
      while (status_.ok() && !ExchangeIsDueLocked() && !UpdateIsDueLocked()) {
        changed_.Wait(&mutex_);
      }
      if (!status_.ok()) return;
    }
    DoNext();
  }
}

bool RingExchange::ExchangeIsDueLocked() const { return !exchanging_ && !queue_.empty(); }

bool RingExchange::UpdateIsDueLocked() const {
  return !updating_ && updated_ < exchanged_;
}

void RingExchange::DoNext() {
  std::optional<Launched> launched;
  int64_t step = 0;
  int bucket = 0;
  {
    MutexLock lock(&mutex_);
    if (!status_.ok()) return;
    if (ExchangeIsDueLocked()) {
      launched = queue_.front();
      queue_.pop_front();
      exchanging_ = true;
    } else if (UpdateIsDueLocked()) {
      step = step_;
      bucket = static_cast<int>(updated_);
      updating_ = true;
    } else {
      return;
    }
  }
  if (launched) {
    Exchange(*launched);
    return;
  }
  const absl::Status updated = Update(step, bucket);
  if (!updated.ok()) Abort(updated);
  MutexLock lock(&mutex_);
  updating_ = false;
  if (updated.ok()) ++updated_;
  changed_.NotifyAll();
}

void RingExchange::Exchange(const Launched& launched) {
  launched.ready.Wait();
  const auto working = [this] { return collectives_->working() + sum_.converting(); };
  const absl::Duration worked_before = working();
  const absl::Status exchanged = RunCollectives(launched);
  if (!exchanged.ok()) Abort(exchanged);
  const absl::Duration worked = working() - worked_before;
  MutexLock lock(&mutex_);
  exchanging_ = false;
  if (exchanged.ok()) {
    working_[exchanged_] = worked;
    done_[exchanged_++] = time_->Elapsed();
    if (sharded_) updated_ = exchanged_;
  }
  changed_.NotifyAll();
}

absl::Status RingExchange::RunCollectives(const Launched& launched) {
  const OperationTag tag = {.step = launched.step, .bucket = launched.bucket.index};
  const DeviceSpan gradients = gradients_.Slice(launched.bucket.range);
  if (!sharded_) {
    RETURN_IF_ERROR(
        sum_.AllReduce(*collectives_, tag, MeanFactorOf(launched.step), gradients));
    ++operations_;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(collectives_->ReduceScatter(tag, gradients));
  ++operations_;
  RETURN_IF_ERROR(Update(launched.step, launched.bucket.index));
  RETURN_IF_ERROR(collectives_->AllGather(tag, parameters_.Slice(launched.bucket.range)));
  ++operations_;
  return absl::OkStatus();
}

float RingExchange::MeanFactorOf(int64_t step) const {
  return MeanFactor(contributors_.At(step));
}

absl::Status RingExchange::Update(int64_t step, int bucket) {
  ASSIGN_OR_RETURN(const StepConstants constants, constants_->At(step));
  const absl::Duration begin = time_->Elapsed();
  const std::span<float> gradient = gradients_.Slice(own_[bucket]).host();
  const std::span<float> parameters = parameters_.Slice(own_[bucket]).host();
  const std::optional<float> factor = sum_.RestOf(MeanFactorOf(step));
  for (size_t done = 0; done < gradient.size(); done += kUpdatedAtOnce) {
    const size_t count = std::min(kUpdatedAtOnce, gradient.size() - done);
    const std::span<float> block = gradient.subspan(done, count);
    if (factor) ScaleInPlace(block, *factor);
    optimizers_[bucket].Apply(constants, static_cast<int64_t>(done),
                              parameters.subspan(done, count), block);
  }
  const absl::Duration end = time_->Elapsed();
  MutexLock lock(&mutex_);
  if (finishing_) {
    optimizer_ += std::max(absl::ZeroDuration(), end - std::max(begin, *finishing_));
  }
  return absl::OkStatus();
}

absl::Status RingExchange::AwaitUpdated(size_t buckets) {
  for (;;) {
    {
      MutexLock lock(&mutex_);
      // Ends without a deadline of its own: a collective has one, and Abort wakes both.
      while (status_.ok()
                 ? updated_ < buckets && !ExchangeIsDueLocked() && !UpdateIsDueLocked()
                 : exchanging_ || updating_) {
        changed_.Wait(&mutex_);
      }
      if (!status_.ok() || updated_ >= buckets) return status_;
    }
    DoNext();
  }
}

std::string RingExchange::Awaited() const {
  MutexLock lock(&mutex_);
  const std::string peers = collectives_->Awaited();
  const bool waits = finishing_ && exchanged_ < plan_.buckets.size();
  if (!waits || peers.empty()) return "";
  return absl::StrCat("bucket ", exchanged_, " of ", peers);
}

absl::Status RingExchange::status() const {
  MutexLock lock(&mutex_);
  return status_;
}

}  // namespace psring
