#include "tests/faulty_parameter_channel.h"

#include <utility>

#include "glog/logging.h"

namespace psring {
namespace {

// Two callbacks, of which the later one calls `done`, with the first error of both.
ParameterChannel::Done AfterTwo(ParameterChannel::Done done) {
  struct State {
    Mutex mutex;
    int left ABSL_GUARDED_BY(mutex) = 2;
    absl::Status status ABSL_GUARDED_BY(mutex);
  };
  return [state = std::make_shared<State>(),
          done = std::move(done)](const absl::Status& status) {
    absl::Status both;
    {
      MutexLock lock(&state->mutex);
      if (state->status.ok()) state->status = status;
      if (--state->left > 0) return;
      both = state->status;
    }
    done(both);
  };
}

}  // namespace

FaultyParameterChannel::FaultyParameterChannel(std::unique_ptr<ParameterChannel> channel,
                                               PushFault fault, int64_t at,
                                               Replace replace)
    : fault_(fault), at_(at), replace_(std::move(replace)) {
  CHECK_GE(at, 1);
  MutexLock lock(&mutex_);
  channels_.push_back(std::move(channel));
}

ParameterChannel& FaultyParameterChannel::channel() {
  MutexLock lock(&mutex_);
  return *channels_.back();
}

void FaultyParameterChannel::Initialize(const Slot& slot,
                                        std::span<const float> parameters, Done done) {
  channel().Initialize(slot, parameters, std::move(done));
}

void FaultyParameterChannel::Push(const Slot& slot, int64_t step, int64_t version,
                                  std::span<const float> gradient, Done done) {
  const bool faulty = pushes_[slot.index]++ == at_;
  switch (faulty ? fault_ : PushFault::kNone) {
    case PushFault::kNone:
      channel().Push(slot, step, version, gradient, std::move(done));
      break;
    case PushFault::kSentTwice: {
      const Done both = AfterTwo(std::move(done));
      channel().Push(slot, step, version, gradient, both);
      channel().Push(slot, step, version, gradient, both);
      break;
    }
    case PushFault::kAnswerLost:
      channel().Push(slot, step, version, gradient,
                     [this, slot, step, version, gradient,
                      done = std::move(done)](const absl::Status& lost) {
                       if (!lost.ok()) return done(lost);
                       channel().Push(slot, step, version, gradient, done);
                     });
      break;
    case PushFault::kOvertakenByItsPull:
      overtaken_[slot.index] = [this, slot, step, version, gradient,
                                done = std::move(done)] {
        channel().Push(slot, step, version, gradient, done);
      };
      break;
    case PushFault::kOneBeforeComesAgain: {
      const Done both = AfterTwo(std::move(done));
      channel().Push(slot, step, version, gradient, both);
      SendAgain(slot, both);
      break;
    }
    case PushFault::kFromAReplacement: {
      const Done both = AfterTwo(std::move(done));
      // The first slot to come is the first of its step: nothing is under way.
      {
        MutexLock lock(&mutex_);
        if (channels_.size() == 1) {
          channels_.push_back(replace_());
          if (!aborted_.ok()) channels_.back()->Abort(aborted_);
        }
      }
      SendAgain(slot, both);
      channel().Push(slot, step, version, gradient, both);
      break;
    }
  }
  last_[slot.index] = std::make_shared<const Sent>(
      Sent{slot, step, version, {gradient.begin(), gradient.end()}});
}

void FaultyParameterChannel::SendAgain(const Slot& slot, Done done) {
  const std::shared_ptr<const Sent> before = last_.at(slot.index);
  channel().Push(
      before->slot, before->step, before->version, before->gradient,
      [before, done = std::move(done)](const absl::Status& status) { done(status); });
}

void FaultyParameterChannel::Pull(const Slot& slot, int64_t step,
                                  std::span<float> parameters, PullDone done) {
  channel().Pull(slot, step, parameters, std::move(done));
  if (const auto overtaken = overtaken_.extract(slot.index)) overtaken.mapped()();
}

void FaultyParameterChannel::Snapshot(const Slot& slot, int64_t step,
                                      std::span<float> parameters, SnapshotDone done) {
  channel().Snapshot(slot, step, parameters, std::move(done));
}

void FaultyParameterChannel::Leave(Done done) { channel().Leave(std::move(done)); }

void FaultyParameterChannel::Abort(const absl::Status& reason) {
  MutexLock lock(&mutex_);
  if (aborted_.ok()) aborted_ = reason;
  for (const auto& channel : channels_) channel->Abort(reason);
}

}  // namespace psring
