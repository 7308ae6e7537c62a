#include "ring/ring_exchange.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/arithmetic.h"
#include "common/status_macros.h"

namespace psring {

RingExchange::RingExchange(int ranks, BucketPlan plan, const Optimizer& optimizer,
                           std::shared_ptr<StepConstantsSource> constants,
                           std::unique_ptr<Collectives> collectives,
                           const TimeSource* time)
    : plan_(std::move(plan)),
      mean_factor_(MeanFactor(ranks)),
      constants_(std::move(constants)),
      time_(time),
      collectives_(std::move(collectives)),
      order_(RangesOf(plan_)),
      done_(plan_.buckets.size()) {
  for (const Bucket& bucket : plan_.buckets) {
    optimizers_.emplace_back(optimizer, bucket.range.count);
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
  thread_ = std::thread([this] { SumLaunchedBuckets(); });
  return absl::OkStatus();
}

absl::Status RingExchange::Launch(int64_t step, const Bucket& bucket,
                                  const ReadyEvent& ready) {
  RETURN_IF_ERROR(status());
  RETURN_IF_ERROR(order_.Launch(step, bucket));
  MutexLock lock(&mutex_);
  queue_.push_back({.step = step, .bucket = bucket, .ready = ready});
  // Nothing is left to hide the last sum behind: Finish runs it without a hand-over.
  if (bucket.index + 1 < static_cast<int>(plan_.buckets.size())) changed_.NotifyAll();
  return absl::OkStatus();
}

absl::StatusOr<StepReport> RingExchange::Finish(int64_t step) {
  RETURN_IF_ERROR(AwaitSummed(0));
  RETURN_IF_ERROR(order_.CheckFinish(step));
  const absl::StatusOr<StepConstants> constants = constants_->At(step);
  if (!constants.ok()) {
    Abort(constants.status());
    return AwaitSummed(0);  // The buffers are let go of first.
  }
  StepReport report;
  for (size_t i = 0; i < plan_.buckets.size(); ++i) {
    RETURN_IF_ERROR(AwaitSummed(i + 1));
    const absl::Duration start = time_->Elapsed();
    const Range range = plan_.buckets[i].range;
    const std::span<float> gradient = gradients_.Slice(range).host();
    ScaleInPlace(gradient, mean_factor_);
    optimizers_[i].Apply(*constants, 0, parameters_.Slice(range).host(), gradient);
    report.optimizer += time_->Elapsed() - start;
  }
  order_.EndStep(step + 1);
  MutexLock lock(&mutex_);
  summed_ = 0;
  report.bucket_done = done_;
  return report;
}

ExchangeTraffic RingExchange::traffic() const { return collectives_->traffic(); }

void RingExchange::Abort(absl::Status reason) {
  {
    MutexLock lock(&mutex_);
    if (status_.ok()) status_ = reason;
    changed_.NotifyAll();
  }
  collectives_->Abort(std::move(reason));
}

void RingExchange::SumLaunchedBuckets() {
  for (;;) {
    {
      MutexLock lock(&mutex_);
      while (status_.ok() && !NextIsDueLocked()) changed_.Wait(&mutex_);
      if (!status_.ok()) return;
    }
    SumNext();
  }
}

bool RingExchange::NextIsDueLocked() const { return !summing_ && !queue_.empty(); }

void RingExchange::SumNext() {
  Launched next;
  {
    MutexLock lock(&mutex_);
    if (!status_.ok() || !NextIsDueLocked()) return;
    next = queue_.front();
    queue_.pop_front();
    summing_ = true;
  }
  next.ready.Wait();
  const absl::Status summed =
      collectives_->AllReduce({.step = next.step, .bucket = next.bucket.index},
                              gradients_.Slice(next.bucket.range));
  if (!summed.ok()) Abort(summed);
  MutexLock lock(&mutex_);
  summing_ = false;
  if (summed.ok()) done_[summed_++] = time_->Elapsed();
  changed_.NotifyAll();
}

absl::Status RingExchange::AwaitSummed(size_t buckets) {
  for (;;) {
    {
      MutexLock lock(&mutex_);
      // Ends without a deadline of its own: a sum has one, and Abort wakes both.
      awaited_ = static_cast<int>(buckets) - 1;
      while (status_.ok() ? summed_ < buckets && !NextIsDueLocked() : summing_) {
        changed_.Wait(&mutex_);
      }
      if (!status_.ok() || summed_ >= buckets) {
        awaited_ = -1;
        return status_;
      }
    }
    SumNext();
  }
}

std::string RingExchange::Awaited() const {
  MutexLock lock(&mutex_);
  const std::string peers = collectives_->Awaited();
  if (awaited_ < 0 || peers.empty()) return "";
  return absl::StrCat("bucket ", awaited_, " of ", peers);
}

absl::Status RingExchange::status() const {
  MutexLock lock(&mutex_);
  return status_;
}

}  // namespace psring
