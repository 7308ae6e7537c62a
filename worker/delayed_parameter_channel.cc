#include "worker/delayed_parameter_channel.h"

#include <utility>

#include "glog/logging.h"

namespace psring {

DelayedParameterChannel::DelayedParameterChannel(
    std::unique_ptr<ParameterChannel> channel, absl::Duration delay,
    const TimeSource* time)
    : delay_(delay),
      time_(time),
      channel_(std::move(channel)),
      thread_([this] { Run(); }) {
  CHECK(delay >= absl::ZeroDuration());
}

DelayedParameterChannel::~DelayedParameterChannel() {
  Abort(absl::CancelledError("the channel has ended"));
  {
    MutexLock lock(&mutex_);
    closing_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void DelayedParameterChannel::Initialize(const Slot& slot,
                                         std::span<const float> parameters, Done done) {
  Request<absl::Status>(
      [this, slot, parameters](Done answered) {
        channel_->Initialize(slot, parameters, std::move(answered));
      },
      std::move(done));
}

void DelayedParameterChannel::Pull(const Slot& slot, int64_t step,
                                   std::span<float> parameters, PullDone done) {
  Request<absl::StatusOr<Pulled>>(
      [this, slot, step, parameters](PullDone answered) {
        channel_->Pull(slot, step, parameters, std::move(answered));
      },
      NotingDelay(std::move(done)));
}

void DelayedParameterChannel::Exchange(const Slot& slot, int64_t step, int64_t version,
                                       Bytes gradient, std::span<float> parameters,
                                       PullDone done) {
  Request<absl::StatusOr<Pulled>>(
      [this, slot, step, version, gradient, parameters](PullDone answered) {
        channel_->Exchange(slot, step, version, gradient, parameters,
                           std::move(answered));
      },
      NotingDelay(std::move(done)));
}

ParameterChannel::PullDone DelayedParameterChannel::NotingDelay(PullDone done) const {
  return [done = std::move(done), delay = delay_](const absl::StatusOr<Pulled>& pulled) {
    if (!pulled.ok()) {
      done(pulled);
      return;
    }
    Pulled noted = *pulled;
    noted.delayed = delay;
    done(noted);
  };
}

void DelayedParameterChannel::Snapshot(const Slot& slot, int64_t step,
                                       std::span<float> parameters, SnapshotDone done) {
  Request<absl::StatusOr<SnapshotInfo>>(
      [this, slot, step, parameters](SnapshotDone answered) {
        channel_->Snapshot(slot, step, parameters, std::move(answered));
      },
      std::move(done));
}

void DelayedParameterChannel::Leave(Done done) {
  Request<absl::Status>([this](Done answered) { channel_->Leave(std::move(answered)); },
                        std::move(done));
}

void DelayedParameterChannel::Abort(const absl::Status& reason) {
  CHECK(!reason.ok());
  {
    MutexLock lock(&mutex_);
    if (!aborted_.ok()) return;
    aborted_ = reason;
    changed_.NotifyAll();
  }
  channel_->Abort(reason);
}

template <typename Outcome>
void DelayedParameterChannel::Request(
    std::function<void(std::function<void(const Outcome&)>)> call,
    std::function<void(const Outcome&)> done) {
  Send([this, call = std::move(call),
        done = std::move(done)](const absl::Status& aborted) {
    if (!aborted.ok()) {
      done(aborted);
      return;
    }
    {
      MutexLock lock(&mutex_);
      ++below_;
    }
    call([this, done](const Outcome& outcome) {
      MutexLock lock(&mutex_);
      --below_;
      SendLocked([done, outcome](const absl::Status& aborted_meanwhile) {
        done(aborted_meanwhile.ok() ? outcome : Outcome(aborted_meanwhile));
      });
    });
  });
}

void DelayedParameterChannel::Send(Arrive arrive) {
  MutexLock lock(&mutex_);
  SendLocked(std::move(arrive));
}

void DelayedParameterChannel::SendLocked(Arrive arrive) {
  messages_.push_back({.due = time_->Elapsed() + delay_, .arrive = std::move(arrive)});
  changed_.NotifyAll();
}

// After an Abort everything is due at once.
void DelayedParameterChannel::Run() {
  for (;;) {
    Arrive arrive;
    absl::Status aborted;
    {
      MutexLock lock(&mutex_);
      for (;;) {
        if (messages_.empty()) {
          if (closing_ && below_ == 0) return;
          changed_.Wait(&mutex_);
          continue;
        }
        const absl::Duration left = messages_.front().due - time_->Elapsed();
        if (!aborted_.ok() || left <= absl::ZeroDuration()) break;
        changed_.WaitUntil(&mutex_, SteadyDeadline(left));
      }
      arrive = std::move(messages_.front().arrive);
      messages_.pop_front();
      aborted = aborted_;
    }
    arrive(aborted);
  }
}

}  // namespace psring
