// The way of one bucket in one step, as text.
#ifndef PSRING_EXPERIMENTS_TRACE_BUCKET_PATH_H_
#define PSRING_EXPERIMENTS_TRACE_BUCKET_PATH_H_

#include <cstdint>
#include <span>
#include <string>

#include "experiments/trace/traced_run.h"
#include "proto/record.pb.h"

namespace psring {

// When the bucket was ready, launched, applied and back on each rank, and who was last;
// times on one clock, since the first worker began the step. `steps` are the records of
// the step by rank, null where there is none, of which at least one is there and has the
// bucket; `contributions` are those that were made from it, of any bucket. Pure.
std::string DescribeBucketPath(const TracedRun& run, int bucket,
                               std::span<const StepRecord* const> steps,
                               std::span<const TracedContribution> contributions);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_TRACE_BUCKET_PATH_H_
