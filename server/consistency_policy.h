// When a slot takes a contribution, and when it answers a pull: the only place where
// the modes of a parameter server differ. server/policies.cc has them all.
#ifndef PSRING_SERVER_CONSISTENCY_POLICY_H_
#define PSRING_SERVER_CONSISTENCY_POLICY_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "server/worker_clocks.h"

namespace psring {

struct PushInfo {
  int rank = 0;
  // The round's number where there are rounds, else the worker's own step.
  int64_t step = 0;
  int slot = 0;
  int64_t version = 0;  // That the gradient was computed from.
};

struct PullInfo {
  int rank = 0;
  int64_t step = 0;  // That the parameters are for.
  int slot = 0;
};

// What the shard does with a contribution. Each mode uses the actions it needs.
enum class PushAction {
  kHold,       // Keep it for the open round.
  kApply,      // Apply it now, by itself.
  kWait,       // Keep it, and ask again after the next update.
  kDropLate,   // Do not apply it, but count it: its round has closed.
  kDropStale,  // Do not apply it, but count it: it is too stale.
  kRefuse,     // Of a step that has not begun: the worker's error.
};

// What a mode promises of every run. Checked against the records when the run has ended.
struct ConsistencyPromise {
  // An update is the mean of a round. Pushes and pulls name rounds, and a round's number
  // is the version that it starts from. Else each push is an update, and pushes and pulls
  // name the worker's own steps.
  bool rounds = false;
  // In one update, while no worker has left.
  int contributions_per_update = 1;
  // Every worker makes the same number of steps.
  bool even = false;
  // And before each step all of them have the same parameters.
  bool lockstep = false;
  // Contributions may be dropped.
  bool drops = false;
  // Every applied contribution has this staleness, or, where the versions do not go back
  // so far, as much as there can be: min(version, staleness).
  std::optional<int64_t> staleness = std::nullopt;
  // The clock lag of an answered pull is at most this.
  std::optional<int64_t> clock_lag = std::nullopt;
  // A pull may be answered with a version this much older than the slot's.
  int64_t older_versions = 0;
};

// Pure decisions, values in and a decision out: no lock, thread, time or I/O, and no
// state of its own. One object serves all slots, from any thread.
//
// `clocks` and `version` are the slot's, before the call in question takes effect. What
// is the same in all modes is not asked: a push that was counted before is acknowledged
// and not added, and a pull waits for the worker's own push of the step before.
class ConsistencyPolicy {
 public:
  virtual ~ConsistencyPolicy() = default;

  // Of a push that has not been counted before, or that has waited.
  virtual PushAction OnPush(const PushInfo& push, const WorkerClocks& clocks,
                            int64_t version) const = 0;

  // Whether the open round is complete, asked after a push of it and after a worker has
  // left. There is at least one contribution in it.
  virtual bool RoundCloses(const WorkerClocks& clocks, int64_t version) const = 0;

  // The version to answer the pull with, at most `version`; none: not yet. Once there is
  // one, there is one as long as clocks and version grow.
  virtual std::optional<int64_t> OnPull(const PullInfo& pull, const WorkerClocks& clocks,
                                        int64_t version) const = 0;

  // Whose pushes the pull, which has to wait, is waiting for.
  virtual std::vector<int> Awaited(const PullInfo& pull, const WorkerClocks& clocks,
                                   int64_t version) const = 0;

  virtual ConsistencyPromise promise() const = 0;
};

}  // namespace psring

#endif  // PSRING_SERVER_CONSISTENCY_POLICY_H_
