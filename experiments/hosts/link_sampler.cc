#include "experiments/hosts/link_sampler.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "common/time_source.h"

namespace psring {
namespace {

// A reading takes about 3 ms of processor time for each host, and arms run on the same
// processors: readings are to take a twentieth of one at most. So pauses are as many
// times as long as the reading before, between four readings a second and one.
constexpr int kPauseFactor = 19;
constexpr absl::Duration kShortestPause = absl::Milliseconds(250);
constexpr absl::Duration kLongestPause = absl::Seconds(1);

}  // namespace

LinkSampler::LinkSampler(const HostNetwork* network, Take take)
    : network_(network), take_(std::move(take)) {
  Sample();
  thread_ = std::thread([this] { Run(); });
}

LinkSampler::~LinkSampler() { Join(); }

absl::Status LinkSampler::status() const {
  MutexLock lock(&mutex_);
  return status_;
}

absl::Status LinkSampler::Stop() {
  Join();
  Sample();
  return status();
}

void LinkSampler::Sample() {
  if (!status().ok()) return;
  const RealTime time;
  const absl::StatusOr<HostsReading> reading = network_->Read();
  pause_ = std::clamp(time.Elapsed() * kPauseFactor, kShortestPause, kLongestPause);
  if (reading.ok()) {
    take_(*reading);
  } else {
    MutexLock lock(&mutex_);
    status_ = reading.status();
  }
}

void LinkSampler::Run() {
  while (true) {
    {
      MutexLock lock(&mutex_);
      const auto next = SteadyDeadline(pause_);
      bool expired = false;
      while (!stop_ && !expired) expired = stopped_.WaitUntil(&mutex_, next);
      if (stop_) return;
    }
    Sample();
  }
}

void LinkSampler::Join() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    stopped_.NotifyAll();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace psring
