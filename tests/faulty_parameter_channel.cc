#include "tests/faulty_parameter_channel.h"

#include <algorithm>
#include <utility>

#include "glog/logging.h"

namespace psring {
namespace {

// An exchange beside which another is under way: done when both are, with the first
// error, or else with the newer parameters.
class TwoAnswers {
 public:
  TwoAnswers(std::span<float> parameters, ParameterChannel::PullDone done)
      : parameters_(parameters), done_(std::move(done)) {}

  // Its parameters are in the span.
  void Take(const absl::StatusOr<Pulled>& pulled) {
    bool both = false;
    {
      MutexLock lock(&mutex_);
      answer_ = pulled;
      both = --left_ == 0;
    }
    if (both) Finish();
  }
  // The other's.
  void TakeAgain(const absl::StatusOr<Pulled>& pulled,
                 std::span<const float> parameters) {
    bool both = false;
    {
      MutexLock lock(&mutex_);
      again_ = pulled;
      parameters_again_.assign(parameters.begin(), parameters.end());
      both = --left_ == 0;
    }
    if (both) Finish();
  }

 private:
  void Finish() {
    absl::StatusOr<Pulled> outcome;
    {
      MutexLock lock(&mutex_);
      outcome = answer_.ok() && !again_.ok() ? again_ : answer_;
      if (outcome.ok() && again_->version > outcome->version) {
        outcome->version = again_->version;
        std::copy(parameters_again_.begin(), parameters_again_.end(),
                  parameters_.begin());
      }
    }
    done_(outcome);
  }

  const std::span<float> parameters_;
  const ParameterChannel::PullDone done_;

  Mutex mutex_;
  int left_ ABSL_GUARDED_BY(mutex_) = 2;
  absl::StatusOr<Pulled> answer_ ABSL_GUARDED_BY(mutex_);
  absl::StatusOr<Pulled> again_ ABSL_GUARDED_BY(mutex_);
  std::vector<float> parameters_again_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

FaultyParameterChannel::FaultyParameterChannel(std::unique_ptr<ParameterChannel> channel,
                                               ExchangeFault fault, int64_t at,
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

void FaultyParameterChannel::Pull(const Slot& slot, int64_t step,
                                  std::span<float> parameters, PullDone done) {
  channel().Pull(slot, step, parameters, std::move(done));
}

void FaultyParameterChannel::Exchange(const Slot& slot, int64_t step, int64_t version,
                                      Bytes gradient, std::span<float> parameters,
                                      PullDone done) {
  const auto current = std::make_shared<const Contribution>(
      Contribution{slot, step, version, {gradient.begin(), gradient.end()}});
  const ContributionPtr before = std::exchange(last_[slot.index], current);
  const bool faulty = exchanges_[slot.index]++ == at_;
  switch (faulty ? fault_ : ExchangeFault::kNone) {
    case ExchangeFault::kNone:
      channel().Exchange(slot, step, version, gradient, parameters, std::move(done));
      break;
    case ExchangeFault::kSentTwice: {
      const auto both = std::make_shared<TwoAnswers>(parameters, std::move(done));
      channel().Exchange(slot, step, version, gradient, parameters,
                         [both](const auto& pulled) { both->Take(pulled); });
      SendAgain(current, [both](const auto& pulled, std::span<const float> again) {
        both->TakeAgain(pulled, again);
      });
      break;
    }
    case ExchangeFault::kAnswerLost:
      SendAgain(current, [this, slot, step, version, gradient, parameters,
                          done = std::move(done)](const auto& lost, const auto&) {
        if (!lost.ok()) return done(lost);
        channel().Exchange(slot, step, version, gradient, parameters, done);
      });
      break;
    case ExchangeFault::kOneBeforeComesAgain: {
      const auto both = std::make_shared<TwoAnswers>(parameters, std::move(done));
      channel().Exchange(slot, step, version, gradient, parameters,
                         [both](const auto& pulled) { both->Take(pulled); });
      SendAgain(before, [both](const auto& pulled, std::span<const float> again) {
        // Of no use to the worker. It is refused where its version is no longer kept.
        const bool expected = pulled.ok() || absl::IsFailedPrecondition(pulled.status());
        both->TakeAgain(expected ? Pulled{} : pulled, again);
      });
      break;
    }
    case ExchangeFault::kFromAReplacement:
      ReplaceProcess();
      SendAgain(before, [this, slot, gradient, parameters, done = std::move(done)](
                            const absl::StatusOr<Pulled>& pulled, const auto&) {
        if (!pulled.ok()) return done(pulled);
        channel().Exchange(slot, pulled->step, pulled->version, gradient, parameters,
                           done);
      });
      break;
  }
}

// From memory of its own.
void FaultyParameterChannel::SendAgain(const ContributionPtr& contribution,
                                       AgainDone done) {
  const auto parameters =
      std::make_shared<std::vector<float>>(contribution->slot.range.count);
  channel().Exchange(
      contribution->slot, contribution->step, contribution->version,
      contribution->gradient, *parameters,
      [contribution, parameters, done = std::move(done)](
          const absl::StatusOr<Pulled>& pulled) { done(pulled, *parameters); });
}

// The first slot to come is the first of its step: nothing is under way.
void FaultyParameterChannel::ReplaceProcess() {
  MutexLock lock(&mutex_);
  if (channels_.size() > 1) return;
  channels_.push_back(replace_());
  if (!aborted_.ok()) channels_.back()->Abort(aborted_);
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
