#include "worker/parameter_server_exchange.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace psring {
namespace {

int64_t Bytes(const Slot& slot) { return slot.range.count * int64_t{sizeof(float)}; }

}  // namespace

ParameterServerExchange::ParameterServerExchange(
    int rank, SlotPlan plan, std::vector<std::unique_ptr<ParameterChannel>> channels,
    const TimeSource* time)
    : rank_(rank),
      plan_(std::move(plan)),
      time_(time),
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
  int64_t count = 0;
  for (const Slot& slot : plan_.slots) count += slot.range.count;
  if (parameters.count != count || gradients.count != count) {
    return absl::InvalidArgumentError(
        absl::StrCat("the plan has ", count, " elements, the parameters ",
                     parameters.count, ", the gradients ", gradients.count));
  }
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
  if (parameters_.data == nullptr) {
    return absl::FailedPreconditionError("Launch before Bind");
  }
  if (bucket.index != next_bucket_ ||
      bucket.index >= static_cast<int>(plan_.of_bucket.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("bucket ", bucket.index, " is launched where bucket ", next_bucket_,
                     " of ", plan_.of_bucket.size(), " is due, step ", step));
  }
  ++next_bucket_;
  ready.Wait();
  for (const int slot : plan_.of_bucket[bucket.index]) {
    Push(plan_.slots[slot], step);
    Pull(plan_.slots[slot], step + 1);
  }
  return absl::OkStatus();
}

absl::StatusOr<StepReport> ParameterServerExchange::Finish(int64_t step) {
  RETURN_IF_ERROR(Wait());
  if (next_bucket_ != static_cast<int>(plan_.of_bucket.size())) {
    return absl::InvalidArgumentError(absl::StrCat("step ", step, " is finished after ",
                                                   next_bucket_, " of ",
                                                   plan_.of_bucket.size(), " buckets"));
  }
  next_bucket_ = 0;
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
