// What the program is built with, and what of it that was found on this machine.
#ifndef PSRING_EXPERIMENTS_BUILD_CHECK_H_
#define PSRING_EXPERIMENTS_BUILD_CHECK_H_

#include <string>
#include <vector>

#include "common/cuda/cuda_support.h"

namespace psring {

struct BuildPart {
  std::string name;
  std::string built_with;  // A version, "yes", or "no" and why.
  std::string found;  // Here and now: a version and where; empty: nothing to look for.
};

// All parts. Looks for GPUs and opens their libraries (FindCuda).
std::vector<BuildPart> CheckBuild();

// Those that GPUs take.
std::vector<BuildPart> CudaParts(const CudaBuild& build, const CudaMachine& machine);

// A line for each, under a header.
std::string BuildTable(const std::vector<BuildPart>& parts);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BUILD_CHECK_H_
