// The synchronous mode: every worker's step s sees the mean of everybody's step s - 1.
#ifndef PSRING_SERVER_SYNC_POLICY_H_
#define PSRING_SERVER_SYNC_POLICY_H_

#include "server/consistency_policy.h"

namespace psring {

// The push of step s belongs to round s, and the open round is the slot's version. A
// round closes when every worker has pushed it; a pull for step s proceeds when the
// version has reached s.
class SyncPolicy final : public ConsistencyPolicy {
 public:
  PushAction OnPush(const PushInfo& push, const WorkerClocks& clocks,
                    int64_t version) const override;
  bool MayPull(int64_t worker_clock, const WorkerClocks& clocks,
               int64_t version) const override;
};

}  // namespace psring

#endif  // PSRING_SERVER_SYNC_POLICY_H_
