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
      slots_(plan_.slots.size()),
      done_(plan_.of_bucket.size()),
      channels_(std::move(channels)) {
  CHECK_EQ(static_cast<int>(channels_.size()), plan_.servers);
  CHECK(!plan_.slots.empty());
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
  for (const Slot& slot : plan_.slots) PullFirst(slot);
  return Wait();
}

absl::Status ParameterServerExchange::Launch(int64_t step, const Bucket& bucket,
                                             const ReadyEvent& ready) {
  RETURN_IF_ERROR(error());
  RETURN_IF_ERROR(order_.Launch(step, bucket));
  if (bucket.index == 0) version_skew_ = VersionSkew();
  ready.Wait();
  for (const int slot : plan_.of_bucket[bucket.index]) {
    Pulled from;
    {
      MutexLock lock(&mutex_);
      from = slots_[slot].pulled;
    }
    Exchange(plan_.slots[slot], from);
  }
  return absl::OkStatus();
}

absl::StatusOr<StepReport> ParameterServerExchange::Finish(int64_t step) {
  const absl::Duration start = time_->Elapsed();
  RETURN_IF_ERROR(Wait());
  RETURN_IF_ERROR(order_.CheckFinish(step));
  order_.EndStep(step + 1);
  StepReport report = {.version_skew = version_skew_};
  {
    MutexLock lock(&mutex_);
    report.finished = finished_;
    report.bucket_done = done_;
    const absl::Duration late = std::min(last_.pulled.parked, last_.time - start);
    if (late > absl::ZeroDuration()) {
      report.peer_late = late;
      report.waited_for = last_.pulled.released_by;
    }
  }
  if (report.finished) {
    for (const auto& channel : channels_) {
      BeginRequest();
      channel->Leave([this](const absl::Status& status) { EndRequest(status); });
    }
    RETURN_IF_ERROR(Wait());
  }
  return report;
}

absl::StatusOr<ParameterServerExchange::SnapshotOrigin>
ParameterServerExchange::ReadSnapshot(int64_t step, std::span<float> parameters) {
  RETURN_IF_ERROR(error());
  if (static_cast<int64_t>(parameters.size()) != parameters_.count) {
    return absl::InvalidArgumentError(
        absl::StrCat("a snapshot is read into ", parameters.size(),
                     " elements, the bound parameters have ", parameters_.count));
  }
  std::vector<SnapshotInfo> slots(plan_.slots.size());
  for (const Slot& slot : plan_.slots) {
    BeginRequest();
    ChannelOf(slot).Snapshot(
        slot, step, parameters.subspan(slot.range.begin, slot.range.count),
        [this, &slot,
         &taken = slots[slot.index]](const absl::StatusOr<SnapshotInfo>& snapshot) {
          if (snapshot.ok()) {
            traffic_.CountIn(TrafficKind::kSnapshot, Bytes(slot));
            taken = *snapshot;
          }
          EndRequest(snapshot.status());
        });
  }
  RETURN_IF_ERROR(Wait());
  SnapshotOrigin origin = {.version_min = slots.front().version,
                           .version_max = slots.front().version};
  for (const SnapshotInfo& slot : slots) {
    origin.version_min = std::min(origin.version_min, slot.version);
    origin.version_max = std::max(origin.version_max, slot.version);
    origin.time = std::max(origin.time, slot.time);
  }
  return origin;
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

void ParameterServerExchange::PullFirst(const Slot& slot) {
  BeginPull(slot);
  ChannelOf(slot).Pull(slot, /*step=*/0, parameters_.Slice(slot.range).host(),
                       [this, &slot](const absl::StatusOr<Pulled>& pulled) {
                         EndPull(slot, /*step=*/0, pulled);
                       });
}

void ParameterServerExchange::Exchange(const Slot& slot, const Pulled& from) {
  BeginPull(slot);
  ChannelOf(slot).Exchange(
      slot, from.step, from.version, gradients_.Slice(slot.range).host(),
      parameters_.Slice(slot.range).host(),
      [this, &slot, next = from.step + 1](const absl::StatusOr<Pulled>& pulled) {
        if (pulled.ok()) traffic_.CountOut(TrafficKind::kStep, Bytes(slot));
        EndPull(slot, next, pulled);
      });
}

void ParameterServerExchange::BeginPull(const Slot& slot) {
  BeginRequest();
  MutexLock lock(&mutex_);
  slots_[slot.index].awaited = true;
}

void ParameterServerExchange::EndPull(const Slot& slot, int64_t step,
                                      const absl::StatusOr<Pulled>& pulled) {
  absl::Status status = pulled.status();
  if (status.ok() && pulled->step < step) {
    status = absl::InternalError(
        absl::StrCat("server ", slot.server, " was asked for slot ", slot.index,
                     " for step ", step, " and answered with step ", pulled->step));
  }
  if (status.ok()) {
    traffic_.CountIn(step == 0 ? TrafficKind::kInitial : TrafficKind::kStep, Bytes(slot));
  }
  {
    MutexLock lock(&mutex_);
    SlotState& state = slots_[slot.index];
    state.awaited = false;
    if (status.ok()) {
      state.pulled = *pulled;
      last_ = {.pulled = *pulled, .time = time_->Elapsed()};
      done_[slot.bucket] = last_.time;
      finished_ = finished_ || pulled->finished;
    }
  }
  EndRequest(status);
}

int64_t ParameterServerExchange::VersionSkew() {
  MutexLock lock(&mutex_);
  const auto [lowest, highest] = std::minmax_element(
      slots_.begin(), slots_.end(), [](const SlotState& a, const SlotState& b) {
        return a.pulled.version < b.pulled.version;
      });
  return highest->pulled.version - lowest->pulled.version;
}

std::string ParameterServerExchange::Awaited() const {
  MutexLock lock(&mutex_);
  const auto first = std::find_if(slots_.begin(), slots_.end(),
                                  [](const SlotState& slot) { return slot.awaited; });
  if (first == slots_.end()) return running_ > 0 ? "servers to answer" : "";
  const Slot& slot = plan_.slots[first - slots_.begin()];
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
