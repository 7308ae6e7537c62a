// Accuracy of snapshots, after training.
#ifndef PSRING_WORKER_EVALUATE_H_
#define PSRING_WORKER_EVALUATE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/device.h"
#include "proto/record.pb.h"
#include "worker/data_set.h"
#include "worker/model.h"

namespace psring {

// Mean loss and accuracy of `parameters` (as many as the model's layout has) over all
// `samples` of so many `features` each, and the parameters' digest; what else the record
// says of them is the caller's to set. Binds the model to memory that is gone afterwards:
// bind it again before using it. `max_rows` is the model's.
absl::StatusOr<EvaluationRecord> Evaluate(Device* device, Model* model, int64_t max_rows,
                                          const SampleSet& samples, int64_t features,
                                          std::span<const float> parameters);

}  // namespace psring

#endif  // PSRING_WORKER_EVALUATE_H_
