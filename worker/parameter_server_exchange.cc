#include "worker/parameter_server_exchange.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace psring {
namespace {

// As parameters.
int64_t SlotBytes(const Slot& slot) { return slot.range.count * int64_t{sizeof(float)}; }

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

int64_t ParameterServerExchange::WindowBytes(const SlotPlan& plan, int workers,
                                             int64_t bytes_on_the_way) {
  constexpr int64_t kLeastSlots = 4;
  constexpr int64_t kLeastBytesOfAll = 1 << 20;
  int64_t largest = 0;
  for (const Slot& slot : plan.slots) largest = std::max(largest, SlotBytes(slot));
  return std::max(kLeastSlots * largest, kLeastBytesOfAll / workers) + bytes_on_the_way;
}

ParameterServerExchange::ParameterServerExchange(
    int rank, SlotPlan plan, std::vector<std::unique_ptr<ParameterChannel>> channels,
    const TimeSource* time, std::optional<int> local_server, int64_t window_bytes,
    const WireType& wire, const std::shared_ptr<MemoryGauge>& wire_memory)
    : rank_(rank),
      plan_(std::move(plan)),
      time_(time),
      window_bytes_(window_bytes),
      traffic_(local_server),
      encoder_(wire, plan_, wire_memory),
      order_(BucketRanges(plan_)),
      slots_(plan_.slots.size()),
      queues_(plan_.servers),
      done_(plan_.of_bucket.size()),
      working_(plan_.of_bucket.size()),
      of_server_(plan_.servers),
      channels_(std::move(channels)) {
  CHECK_EQ(static_cast<int>(channels_.size()), plan_.servers);
  CHECK(!plan_.slots.empty());
  for (int server = 0; server < plan_.servers; ++server) {
    queues_[server].slots.reserve(plan_.of_server[server].size());
  }
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
  const std::vector<int>& slots = plan_.of_bucket[bucket.index];
  // Finish comes next, which has nothing to do but to await this bucket. Of several slots
  // of a server the channel's thread reads answers while this one still writes.
  const bool last = bucket.index + 1 == static_cast<int>(plan_.of_bucket.size());
  if (last && !slots.empty() && static_cast<int>(slots.size()) <= plan_.servers) {
    lent_ = channels_[plan_.slots[slots.back()].server].get();
    lent_->Lend();
  }
  for (const int slot : slots) {
    RETURN_IF_ERROR(Enqueue(plan_.slots[slot]));
    SendQueued(plan_.slots[slot].server);
  }
  return absl::OkStatus();
}

absl::StatusOr<StepReport> ParameterServerExchange::Finish(int64_t step) {
  {
    MutexLock lock(&mutex_);
    lateness_ = {.since = time_->Elapsed()};
  }
  if (lent_ != nullptr) {
    lent_->Drive([this] {
      MutexLock lock(&mutex_);
      return running_ == 0;
    });
    lent_ = nullptr;
  }
  RETURN_IF_ERROR(Wait());
  RETURN_IF_ERROR(order_.CheckFinish(step));
  order_.EndStep(step + 1);
  StepReport report = {.version_skew = version_skew_, .drift = encoder_.drift()};
  {
    MutexLock lock(&mutex_);
    for (Queue& queue : queues_) {
      queue.slots.clear();
      queue.next = 0;
    }
    report.finished = finished_;
    report.operations = std::exchange(operations_, 0);
    SumUpWorkingLocked();
    report.bucket_done = done_;
    report.bucket_working = working_;
    if (lateness_.late > absl::ZeroDuration()) {
      report.peer_late = lateness_.late;
      report.waited_for = lateness_.released_by;
    }
    lateness_ = {};
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
            traffic_.CountIn(TrafficKind::kSnapshot, SlotBytes(slot), slot.server);
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
                                 traffic_.CountOut(TrafficKind::kInitial, SlotBytes(slot),
                                                   slot.server);
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

absl::Status ParameterServerExchange::Enqueue(const Slot& slot) {
  MutexLock lock(&mutex_);
  // Whoever keeps the first error empties the queues.
  if (!error_.ok()) return error_;
  ++running_;
  slots_[slot.index].awaited = true;
  queues_[slot.server].slots.push_back(slot.index);
  return absl::OkStatus();
}

void ParameterServerExchange::SendQueued(int server) {
  {
    MutexLock lock(&mutex_);
    // The thread that is sending sees what this one has queued or made room for.
    if (queues_[server].sending) return;
    queues_[server].sending = true;
  }
  while (const Slot* const slot = TakeQueued(server)) Exchange(*slot);
}

const Slot* ParameterServerExchange::TakeQueued(int server) {
  MutexLock lock(&mutex_);
  Queue& queue = queues_[server];
  if (queue.waiting() > 0) {
    const Slot& slot = plan_.slots[queue.slots[queue.next]];
    const int64_t unanswered = queue.unanswered_bytes + SlotBytes(slot);
    if (queue.unanswered_bytes == 0 || unanswered <= window_bytes_) {
      ++queue.next;
      queue.unanswered_bytes = unanswered;
      return &slot;
    }
  }
  queue.sending = false;
  return nullptr;
}

void ParameterServerExchange::Exchange(const Slot& slot) {
  Pulled from;
  {
    MutexLock lock(&mutex_);
    from = slots_[slot.index].pulled;
  }
  const absl::StatusOr<Bytes> gradient =
      encoder_.Encode(slot, gradients_.Slice(slot.range).host());
  if (!gradient.ok()) {
    EndPull(slot, from.step + 1,
            Annotate(gradient.status(), absl::StrCat("rank ", rank_)));
    return;
  }
  ChannelOf(slot).Exchange(
      slot, from.step, from.version, *gradient, parameters_.Slice(slot.range).host(),
      // No more is captured than a callback holds without an allocation.
      [this, &slot](const absl::StatusOr<Pulled>& pulled) { EndExchange(slot, pulled); });
}

void ParameterServerExchange::EndExchange(const Slot& slot,
                                          const absl::StatusOr<Pulled>& pulled) {
  int64_t next = 0;
  {
    MutexLock lock(&mutex_);
    next = slots_[slot.index].pulled.step + 1;
    queues_[slot.server].unanswered_bytes -= SlotBytes(slot);
    if (pulled.ok()) ++operations_;
  }
  if (pulled.ok()) {
    traffic_.CountOut(TrafficKind::kStep, encoder_.EncodedBytes(slot), slot.server);
    SendQueued(slot.server);
  }
  EndPull(slot, next, pulled);
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
    traffic_.CountIn(step == 0 ? TrafficKind::kInitial : TrafficKind::kStep,
                     SlotBytes(slot), slot.server);
  }
  {
    MutexLock lock(&mutex_);
    SlotState& state = slots_[slot.index];
    state.awaited = false;
    if (status.ok()) {
      state.pulled = *pulled;
      const absl::Duration now = time_->Elapsed();
      done_[slot.bucket] = now;
      const absl::Duration late =
          std::min(pulled->parked, now - pulled->delayed - lateness_.since);
      if (late > lateness_.late) {
        lateness_.late = late;
        lateness_.released_by = pulled->released_by;
      }
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

void ParameterServerExchange::SumUpWorkingLocked() {
  for (size_t bucket = 0; bucket < working_.size(); ++bucket) {
    std::fill(of_server_.begin(), of_server_.end(), absl::ZeroDuration());
    for (const int slot : plan_.of_bucket[bucket]) {
      of_server_[plan_.slots[slot].server] += slots_[slot].pulled.working;
    }
    working_[bucket] = *std::max_element(of_server_.begin(), of_server_.end());
  }
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
  for (Queue& queue : queues_) {
    running_ -= queue.waiting();
    for (; queue.waiting() > 0; ++queue.next) {
      slots_[queue.slots[queue.next]].awaited = false;
    }
  }
  if (running_ == 0) idle_.NotifyAll();
  return true;
}

absl::Status ParameterServerExchange::error() {
  MutexLock lock(&mutex_);
  return error_;
}

}  // namespace psring
