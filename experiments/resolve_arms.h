// From a loaded experiment to the jobs of its arms, with the data that it names.
#ifndef PSRING_EXPERIMENTS_RESOLVE_ARMS_H_
#define PSRING_EXPERIMENTS_RESOLVE_ARMS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/coordinator.pb.h"
#include "proto/experiment.pb.h"
#include "worker/data_set.h"

namespace psring {

// Loads the data only to check them: damaged data are one error here, not one per worker.
// Nothing where the experiment has none.
absl::StatusOr<DataSetShape> CheckData(const Experiment& experiment);

// The jobs of all arms, or of `only` where it is not empty. InvalidArgument: there is no
// such arm, its plan has too many slots (common/job_plan.h), or the model has no such
// parameters as `inject` asks for.
absl::StatusOr<std::vector<JobSpec>> ResolveArms(const Experiment& experiment,
                                                 const std::string& only,
                                                 const DataSetShape& data);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_RESOLVE_ARMS_H_
