// Made-up images to train on.
#ifndef PSRING_EXPERIMENTS_BENCH_STEP_PIXELS_H_
#define PSRING_EXPERIMENTS_BENCH_STEP_PIXELS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace psring {

// Writes a data set of 10 classes into the folder, in the form that workers load
// (worker/data_set.h): `samples` images of `features` pixels, and a few to test. An image
// is its class's pattern with noise on top, so that a model learns from it. Every fourth
// is called by a class that says nothing, so that losses and gradients do not vanish:
// arithmetic is slower with numbers next to zero. The same numbers give the same files.
// kInternal: a file cannot be written.
absl::Status WritePixels(const std::string& folder, int64_t features, int64_t samples);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_STEP_PIXELS_H_
