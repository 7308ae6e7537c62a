// Which exchange a job's arm asks for: the only place where the modes part on a worker.
#ifndef PSRING_WORKER_MAIN_EXCHANGE_FACTORY_H_
#define PSRING_WORKER_MAIN_EXCHANGE_FACTORY_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/coordinator_client.h"
#include "common/gradient_exchange.h"
#include "common/job_plan.h"
#include "common/member_process.h"
#include "common/time_source.h"

namespace psring {

// Finds this worker's peers through the coordinator and connects to them. `time` and
// `client` outlive the exchange. Errors: kDeadlineExceeded, a peer did not come in time;
// otherwise as the exchanges'.
absl::StatusOr<std::unique_ptr<GradientExchange>> MakeExchange(const Endpoint& endpoint,
                                                               int rank,
                                                               const JobPlan& plan,
                                                               const TimeSource* time,
                                                               CoordinatorClient& client);

}  // namespace psring

#endif  // PSRING_WORKER_MAIN_EXCHANGE_FACTORY_H_
