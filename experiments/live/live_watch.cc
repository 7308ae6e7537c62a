#include "experiments/live/live_watch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace psring {
namespace {

constexpr absl::Duration kWindow = absl::Seconds(1);

}  // namespace

void LiveWatch::Counted::Add(const Moment& moment, absl::Duration now) {
  heard = now;
  if (!moments.empty() && moment.time <= moments.back().time) return;
  moments.push_back(moment);
  while (moments.size() > 2 && moment.time - moments[1].time >= kWindow) {
    moments.pop_front();
  }
}

LiveWatch::Rate LiveWatch::Counted::At(absl::Duration now) const {
  if (moments.size() < 2) return {};
  const Moment& first = moments.front();
  const Moment& last = moments.back();
  absl::Duration span = last.time - first.time;
  const absl::Duration silence = now - heard;
  if (silence > kWindow + 2 * span) span += silence;
  const double seconds = absl::ToDoubleSeconds(span);
  return {.out_bytes_s = static_cast<double>(last.out - first.out) / seconds,
          .in_bytes_s = static_cast<double>(last.in - first.in) / seconds};
}

void LiveWatch::Begin(const JobSpec& spec) {
  MutexLock lock(&mutex_);
  spec_ = spec;
  links_.clear();
  if (OnHosts(spec)) links_ = LinksOf(PlanHosts(spec));
  hosts_.clear();
  reading_.reset();
  workers_.clear();
  for (int64_t rank = 0; rank < spec.workers(); ++rank) workers_[rank] = {};
}

void LiveWatch::Reported(const Member& /*from*/, const RecordBatch& batch) {
  const absl::Duration now = time_->Elapsed();
  MutexLock lock(&mutex_);
  for (int i = 0; i < batch.steps_size(); ++i) {
    const StepRecord& step = batch.steps(i);
    WorkerWatch& worker = workers_[step.rank()];
    ++worker.steps;
    if (worker.payload.moments.empty()) {
      worker.payload.Add({.time = absl::Nanoseconds(step.start_ns())}, now);
    }
    // A batch is of one process.
    if (i + 1 < batch.steps_size()) continue;
    worker.payload.Add({.time = absl::Nanoseconds(step.start_ns() + step.total_ns()),
                        .out = step.payload_out(),
                        .in = step.payload_in()},
                       now);
  }
  for (const ContributionRecord& contribution : batch.contributions()) {
    workers_[contribution.rank()].clock_lag = contribution.clock_lag();
  }
}

void LiveWatch::Sampled(const HostsReading& reading) {
  const absl::Duration now = time_->Elapsed();
  std::map<std::string, Moment> moments;
  for (const LinkReading& link : reading.links) {
    Moment& moment = moments[link.host];
    moment.time = reading.time - absl::UnixEpoch();
    (link.out ? moment.out : moment.in) = link.bytes;
  }
  MutexLock lock(&mutex_);
  for (const auto& [host, moment] : moments) hosts_[host].Add(moment, now);
  reading_ = reading;
}

void LiveWatch::End() {
  MutexLock lock(&mutex_);
  spec_.reset();
  reading_.reset();
}

LiveState LiveWatch::State() const {
  const absl::Duration now = time_->Elapsed();
  MutexLock lock(&mutex_);
  return StateAt(now);
}

std::optional<LiveWatch::Seen> LiveWatch::Now() const {
  const absl::Duration now = time_->Elapsed();
  MutexLock lock(&mutex_);
  if (!spec_) return std::nullopt;
  return Seen{.spec = *spec_, .state = StateAt(now), .reading = reading_};
}

LiveState LiveWatch::StateAt(absl::Duration now) const {
  LiveState state;
  if (!spec_) return state;
  state.steps = spec_->steps();
  LiveLink servers;
  for (const auto& [rank, worker] : workers_) {
    state.workers.push_back(
        {.rank = rank, .steps = worker.steps, .clock_lag = worker.clock_lag});
    // One that is alone sends nothing.
    if (!links_.empty() || spec_->workers() + spec_->servers() < 2) continue;
    const Rate rate = worker.payload.At(now);
    state.links.push_back({.name = absl::StrCat("worker ", rank),
                           .out_bytes_s = rate.out_bytes_s,
                           .in_bytes_s = rate.in_bytes_s});
    servers.out_bytes_s += rate.in_bytes_s;
    servers.in_bytes_s += rate.out_bytes_s;
  }
  if (links_.empty() && spec_->servers() > 0) {
    servers.name = spec_->servers() == 1
                       ? "server 0"
                       : absl::StrCat("servers 0-", spec_->servers() - 1);
    state.links.push_back(servers);
  }
  state.frames = !links_.empty();
  for (const LinkDirection& direction : links_) {
    auto link = std::find_if(
        state.links.begin(), state.links.end(),
        [&direction](const LiveLink& known) { return known.name == direction.host; });
    if (link == state.links.end()) {
      state.links.push_back({.name = direction.host});
      link = state.links.end() - 1;
      const auto counted = hosts_.find(direction.host);
      const Rate rate = counted == hosts_.end() ? Rate{} : counted->second.At(now);
      link->out_bytes_s = rate.out_bytes_s;
      link->in_bytes_s = rate.in_bytes_s;
    }
    (direction.out ? link->out_capacity : link->in_capacity) =
        static_cast<double>(direction.bit_s) / 8;
  }
  return state;
}

}  // namespace psring
