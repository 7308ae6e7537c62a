#include "worker/parameter_server_exchange.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace psring {
namespace {

int64_t Bytes(const Slot& slot) { return slot.range.count * int64_t{sizeof(float)}; }

// The elements of each bucket: those of its slots. Buckets lie one before the other,
// bucket 0 at the end.
std::vector<Range> BucketRanges(const SlotPlan& plan) {
  std::vector<Range> ranges(plan.of_bucket.size());
  int64_t begin = 0;
  for (const Slot& slot : plan.slots) {
    ranges[slot.bucket].count += slot.range.count;
    begin += slot.range.count;
  }
  for (Range& range : ranges) range.begin = begin -= range.count;
  return ranges;
}

}  // namespace

ParameterServerExchange::ParameterServerExchange(
    int rank, SlotPlan plan, std::vector<std::unique_ptr<ParameterChannel>> channels,
    const TimeSource* time)
    : rank_(rank),
      plan_(std::move(plan)),
      time_(time),
      order_(BucketRanges(plan_)),
      pulling_(plan_.slots.size()),
      done_(plan_.of_bucket.size()),
      channels_(std::move(channels)) {
  CHECK_EQ(static_cast<int>(channels_.size()), plan_.servers);
}

ParameterServerExchange::~ParameterServerExchange() {
  Abort(absl::CancelledError("the exchange has ended"));
}

absl::Status ParameterServerExchange::Bind(DeviceSpan parameters, DeviceSpan gradients) {
  RETURN_IF_ERROR(error());
  RETURN_IF_ERROR(order_.Bind(parameters, gradients));
  parameters_ = parameters;
  gradients_ = gradients;
  if (rank_ == 0) {
    // Not at the same time as the pulls, which write where these read.
    for (const Slot& slot : plan_.slots) Initialize(slot);
    RETURN_IF_ERROR(Wait());
  }
  for (const Slot& slot : plan_.slots) Pull(slot, /*step=*/0);
  return Wait();
}

absl::Status ParameterServerExchange::Launch(int64_t step, const Bucket& bucket,
                                             const ReadyEvent& ready) {
  RETURN_IF_ERROR(error());
  RETURN_IF_ERROR(order_.Launch(step, bucket));
  ready.Wait();
  for (const int slot : plan_.of_bucket[bucket.index]) {
    Push(plan_.slots[slot], step);
    Pull(plan_.slots[slot], step + 1);
  }
  return absl::OkStatus();
}

absl::StatusOr<StepReport> ParameterServerExchange::Finish(int64_t step) {
  RETURN_IF_ERROR(Wait());
  RETURN_IF_ERROR(order_.CheckFinish(step));
  order_.EndStep(step + 1);
  MutexLock lock(&mutex_);
  return StepReport{.next_step = step + 1, .bucket_done = done_};
}

void ParameterServerExchange::Abort(absl::Status reason) {
  CHECK(!reason.ok());
  if (!KeepError(reason)) return;
  for (const auto& channel : channels_) channel->Abort(reason);
}

void ParameterServerExchange::Initialize(const Slot& slot) {
  BeginRequest();
  ChannelOf(slot).Initialize(slot, parameters_.Slice(slot.range).host(),
                             [this, &slot](const absl::Status& status) {
                               if (status.ok())
                                 traffic_.CountOut(TrafficKind::kInitial, Bytes(slot));
                               EndRequest(status);
                             });
}

void ParameterServerExchange::Push(const Slot& slot, int64_t step) {
  BeginRequest();
  ChannelOf(slot).Push(slot, step, gradients_.Slice(slot.range).host(),
                       [this, &slot](const absl::Status& status) {
                         if (status.ok())
                           traffic_.CountOut(TrafficKind::kStep, Bytes(slot));
                         EndRequest(status);
                       });
}

void ParameterServerExchange::Pull(const Slot& slot, int64_t step) {
  BeginRequest();
  SetPulling(slot, true);
  ChannelOf(slot).Pull(
      slot, step, parameters_.Slice(slot.range).host(),
      [this, &slot, step](const absl::StatusOr<int64_t>& version) {
        SetPulling(slot, false);
        if (version.ok()) {
          traffic_.CountIn(step == 0 ? TrafficKind::kInitial : TrafficKind::kStep,
                           Bytes(slot));
          MutexLock lock(&mutex_);
          done_[slot.bucket] = time_->Elapsed();
        }
        if (version.ok() && *version != step) {
          EndRequest(absl::FailedPreconditionError(
              absl::StrCat("server ", slot.server, " answered the pull of slot ",
                           slot.index, " for step ", step, " with version ", *version)));
        } else {
          EndRequest(version.status());
        }
      });
}

void ParameterServerExchange::SetPulling(const Slot& slot, bool pulling) {
  MutexLock lock(&mutex_);
  pulling_[slot.index] = pulling;
}

std::string ParameterServerExchange::Awaited() const {
  MutexLock lock(&mutex_);
  const auto first = std::find(pulling_.begin(), pulling_.end(), true);
  if (first == pulling_.end()) return running_ > 0 ? "servers to take a push" : "";
  const Slot& slot = plan_.slots[first - pulling_.begin()];
  return absl::StrCat("slot ", slot.index, " (bucket ", slot.bucket, ") of server ",
                      slot.server);
}

void ParameterServerExchange::BeginRequest() {
  MutexLock lock(&mutex_);
  ++running_;
}

void ParameterServerExchange::EndRequest(const absl::Status& status) {
  if (!status.ok()) Abort(status);
  MutexLock lock(&mutex_);
  if (--running_ == 0) idle_.NotifyAll();
}

absl::Status ParameterServerExchange::Wait() {
  MutexLock lock(&mutex_);
  while (running_ > 0) idle_.Wait(&mutex_);
  return error_;
}

bool ParameterServerExchange::KeepError(const absl::Status& error) {
  MutexLock lock(&mutex_);
  if (!error_.ok()) return false;
  error_ = error;
  return true;
}

absl::Status ParameterServerExchange::error() {
  MutexLock lock(&mutex_);
  return error_;
}

}  // namespace psring
