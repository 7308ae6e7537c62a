#include "server/policies.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace psring {
namespace {

absl::Status CheckRange(const char* field, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": is ", value, "; allowed: ", least, " to ", most));
}

// More would be of no use: no run has so many steps that it could matter.
constexpr int64_t kMostBound = int64_t{1} << 40;
// Each is one more copy of the parameters.
constexpr int64_t kMostOlderVersions = 1000;

// sync (no spares) and backup. Rounds are numbered by the version that they start from:
// the push of step s belongs to round s, and the open round is the slot's version.
//
// Slots have rounds of their own, so a worker that is late in one slot may be in time in
// another. Nobody waits for ever all the same. Of the workers that are blocked, take the
// one that made its pushes first, and the slot whose round it waits for. Whoever
// contributed to the round before, unless it has left, has read this round's version,
// which was made before any of the blocked pushes, and has pushed to it or still
// computes. So there are as many contributions to this round as there were to the last,
// less those that have left, and so many close it.
class RoundPolicy final : public ConsistencyPolicy {
 public:
  RoundPolicy(int workers, int spares) : workers_(workers), spares_(spares) {}

  PushAction OnPush(const PushInfo& push, const WorkerClocks&,
                    int64_t version) const override {
    if (push.step > version) return PushAction::kRefuse;
    return push.step < version ? PushAction::kDropLate : PushAction::kHold;
  }

  bool RoundCloses(const WorkerClocks& clocks, int64_t version) const override {
    return clocks.CountPushed(version) >= workers_ - spares_ - clocks.left();
  }

  std::optional<int64_t> OnPull(const PullInfo& pull, const WorkerClocks&,
                                int64_t version) const override {
    if (version < pull.step) return std::nullopt;
    return version;
  }

  std::vector<int> Awaited(const PullInfo&, const WorkerClocks& clocks,
                           int64_t version) const override {
    return clocks.Missing(version);
  }

  ConsistencyPromise promise() const override {
    return {.rounds = true,
            .contributions_per_update = workers_ - spares_,
            .even = spares_ == 0,
            .lockstep = spares_ == 0,
            .drops = spares_ > 0,
            .staleness = 0,
            .clock_lag = spares_ == 0 ? std::optional<int64_t>(0) : std::nullopt};
  }

 private:
  const int workers_;
  const int spares_;
};

// Each push is applied when it comes; bounded and async differ in when a worker sees
// parameters. Without a bound: at once.
class ApplyEachPolicy final : public ConsistencyPolicy {
 public:
  ApplyEachPolicy(std::optional<int64_t> bound, std::optional<int64_t> drop_above)
      : bound_(bound), drop_above_(drop_above) {}

  PushAction OnPush(const PushInfo& push, const WorkerClocks& clocks,
                    int64_t version) const override {
    if (push.step > clocks.clock(push.rank)) return PushAction::kRefuse;
    const int64_t staleness = version - push.version;
    return drop_above_ && staleness > *drop_above_ ? PushAction::kDropStale
                                                   : PushAction::kApply;
  }

  bool RoundCloses(const WorkerClocks&, int64_t) const override { return false; }

  std::optional<int64_t> OnPull(const PullInfo& pull, const WorkerClocks& clocks,
                                int64_t version) const override {
    if (bound_ && clocks.AnyMissing(LastStepNeeded(pull))) return std::nullopt;
    return version;
  }

  // Whoever is more than the bound behind the worker, whose clock is the step it pulls.
  std::vector<int> Awaited(const PullInfo& pull, const WorkerClocks& clocks,
                           int64_t) const override {
    return clocks.Missing(LastStepNeeded(pull));
  }

  ConsistencyPromise promise() const override {
    return {.contributions_per_update = 1,
            .drops = drop_above_.has_value(),
            .most_staleness = drop_above_,
            .clock_lag = bound_};
  }

 private:
  // Of every worker, before the pull is answered.
  int64_t LastStepNeeded(const PullInfo& pull) const {
    return pull.step - bound_.value_or(pull.step) - 1;
  }

  const std::optional<int64_t> bound_;
  const std::optional<int64_t> drop_above_;
};

// Contribution k is the step k / N of rank k mod N, and no update happens but in this
// order, so that contribution k is applied onto version k.
class FixedDelayPolicy final : public ConsistencyPolicy {
 public:
  FixedDelayPolicy(int workers, int64_t delay) : workers_(workers), delay_(delay) {}

  PushAction OnPush(const PushInfo& push, const WorkerClocks& clocks,
                    int64_t version) const override {
    // Before it is multiplied: a step from outside may be any number.
    if (push.step > clocks.clock(push.rank)) return PushAction::kRefuse;
    const int64_t contribution = push.step * workers_ + push.rank;
    if (contribution == version) return PushAction::kApply;
    // Its parameters, version k - delay, must have been there.
    const bool begun = contribution > version && contribution <= version + delay_;
    return begun ? PushAction::kWait : PushAction::kRefuse;
  }

  bool RoundCloses(const WorkerClocks&, int64_t) const override { return false; }

  std::optional<int64_t> OnPull(const PullInfo& pull, const WorkerClocks&,
                                int64_t version) const override {
    const int64_t wanted = Wanted(pull);
    if (version < wanted) return std::nullopt;
    return wanted;
  }

  std::vector<int> Awaited(const PullInfo&, const WorkerClocks&,
                           int64_t version) const override {
    return {static_cast<int>(version % workers_)};
  }

  ConsistencyPromise promise() const override {
    return {.contributions_per_update = 1,
            .even = true,
            .in_turn = true,
            .staleness = delay_,
            .older_versions = delay_,
            .steps_awaited = std::max<int64_t>(1, workers_ - delay_)};
  }

 private:
  int64_t Wanted(const PullInfo& pull) const {
    return std::max<int64_t>(0, pull.step * workers_ + pull.rank - delay_);
  }

  const int workers_;
  const int64_t delay_;
};

std::optional<int64_t> DropAbove(const StaleUpdates& settings) {
  if (!settings.has_drop_above()) return std::nullopt;
  return settings.drop_above();
}

}  // namespace

absl::StatusOr<std::unique_ptr<const ConsistencyPolicy>> MakePolicy(
    const ParameterServerMode& mode, int workers) {
  using Made = std::unique_ptr<const ConsistencyPolicy>;
  const std::optional<int64_t> drop_above = DropAbove(mode.stale_updates());
  switch (mode.consistency_case()) {
    case ParameterServerMode::kSync:
    case ParameterServerMode::CONSISTENCY_NOT_SET:
      return Made(std::make_unique<RoundPolicy>(workers, /*spares=*/0));
    case ParameterServerMode::kBackup: {
      const int64_t spares = mode.backup().spares();
      RETURN_IF_ERROR(CheckRange("backup.spares", spares, 0, workers - 1));
      return Made(std::make_unique<RoundPolicy>(workers, static_cast<int>(spares)));
    }
    case ParameterServerMode::kBounded: {
      const int64_t bound = mode.bounded().bound();
      RETURN_IF_ERROR(CheckRange("bounded.bound", bound, 0, kMostBound));
      return Made(std::make_unique<ApplyEachPolicy>(bound, drop_above));
    }
    case ParameterServerMode::kAsync:
      return Made(std::make_unique<ApplyEachPolicy>(std::nullopt, drop_above));
    case ParameterServerMode::kFixedDelay: {
      const int64_t delay = mode.fixed_delay().delay();
      RETURN_IF_ERROR(CheckRange("fixed_delay.delay", delay, 0, kMostOlderVersions));
      if (drop_above) {
        return absl::InvalidArgumentError(
            "stale_updates.drop_above: is set, and fixed_delay applies every "
            "contribution; allowed: leaving it out");
      }
      return Made(std::make_unique<FixedDelayPolicy>(workers, delay));
    }
  }
  return absl::InvalidArgumentError("consistency: is none that this program knows");
}

}  // namespace psring
