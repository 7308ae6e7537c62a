// What a run ran on.
#ifndef PSRING_EXPERIMENTS_ENVIRONMENT_H_
#define PSRING_EXPERIMENTS_ENVIRONMENT_H_

#include <string>
#include <utility>
#include <vector>

#include "common/cuda/cuda_support.h"

namespace psring {

// Names and values of what was found on this machine, in the order in which to show them.
using Environment = std::vector<std::pair<std::string, std::string>>;

Environment DescribeMachine();
// The part of it that matters to whatever runs: processor, memory, kernel, compiler.
Environment DescribeHost();
// As in /proc/loadavg.
std::string LoadAverage();
// What was built in of CUDA, or why nothing, and what the driver (CudaDriver) knows.
std::string DescribeCuda(const CudaBuild& build, const std::string& driver);

std::string EnvironmentText(const Environment& environment);
std::string EnvironmentJson(const Environment& environment);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_ENVIRONMENT_H_
