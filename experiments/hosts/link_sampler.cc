#include "experiments/hosts/link_sampler.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace psring {
namespace {

constexpr absl::Duration kInterval = absl::Seconds(1);

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
  const absl::StatusOr<HostsReading> reading = network_->Read();
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
      const auto next = SteadyDeadline(kInterval);
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
