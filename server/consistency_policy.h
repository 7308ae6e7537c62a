// When a slot takes a contribution, and when it answers a pull: the only place where
// the modes of a parameter server differ.
#ifndef PSRING_SERVER_CONSISTENCY_POLICY_H_
#define PSRING_SERVER_CONSISTENCY_POLICY_H_

#include <cstdint>

#include "server/worker_clocks.h"

namespace psring {

struct PushInfo {
  int rank = 0;
  int64_t step = 0;
  int slot = 0;
};

// What the shard does with a contribution. Each mode uses the actions it needs.
enum class PushAction {
  kHold,          // Keep it for the open round.
  kHoldAndClose,  // Keep it; it completes the open round.
  kIgnore,        // Counted already, or of a closed round: acknowledge, do not add.
  kRefuse,        // Of a step that has not begun: the worker's error.
};

// Pure decisions, values in and a decision out: no lock, thread, time or I/O, and no
// state of its own. One object serves all slots, from any thread.
//
// `clocks` and `version` are the slot's, before the call in question takes effect.
class ConsistencyPolicy {
 public:
  virtual ~ConsistencyPolicy() = default;

  virtual PushAction OnPush(const PushInfo& push, const WorkerClocks& clocks,
                            int64_t version) const = 0;

  // Whether a worker whose own clock is `worker_clock` (the step that it wants the
  // parameters for; its last push may still be on the way) may have this version now.
  // Once true, it stays true as clocks and version grow.
  virtual bool MayPull(int64_t worker_clock, const WorkerClocks& clocks,
                       int64_t version) const = 0;
};

}  // namespace psring

#endif  // PSRING_SERVER_CONSISTENCY_POLICY_H_
