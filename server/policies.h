// The consistency modes. To add one: its settings in ParameterServerMode
// (proto/experiment.proto), and its policy with a line in MakePolicy (policies.cc).
#ifndef PSRING_SERVER_POLICIES_H_
#define PSRING_SERVER_POLICIES_H_

#include <memory>

#include "absl/status/statusor.h"
#include "proto/experiment.pb.h"
#include "server/consistency_policy.h"

namespace psring {

// kInvalidArgument: the settings do not suit a run of `workers` workers; "FIELD: is X;
// allowed: Y", with the field relative to `mode`.
absl::StatusOr<std::unique_ptr<const ConsistencyPolicy>> MakePolicy(
    const ParameterServerMode& mode, int workers);

}  // namespace psring

#endif  // PSRING_SERVER_POLICIES_H_
