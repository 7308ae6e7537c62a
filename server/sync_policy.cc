#include "server/sync_policy.h"

namespace psring {

PushAction SyncPolicy::OnPush(const PushInfo& push, const WorkerClocks& clocks,
                              int64_t version) const {
  const int64_t open_round = version;
  if (push.step > open_round) return PushAction::kRefuse;
  if (clocks.HasPushed(push.rank, push.step)) return PushAction::kIgnore;
  const bool last = clocks.CountPushed(open_round) + 1 == clocks.workers();
  return last ? PushAction::kHoldAndClose : PushAction::kHold;
}

bool SyncPolicy::MayPull(int64_t worker_clock, const WorkerClocks&,
                         int64_t version) const {
  return version >= worker_clock;
}

}  // namespace psring
