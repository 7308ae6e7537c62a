// Experiments of tests, from their texts.
#ifndef PSRING_EXPERIMENTS_CONFIG_TEST_UTIL_H_
#define PSRING_EXPERIMENTS_CONFIG_TEST_UTIL_H_

#include <fstream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/config.h"
#include "gtest/gtest.h"
#include "proto/experiment.pb.h"

namespace psring {

// The path of a file with this text; the test's next one takes its place.
inline std::string WriteExperiment(const std::string& text) {
  const std::string path = testing::TempDir() + "/experiment.textproto";
  std::ofstream(path) << text;
  return path;
}

inline absl::StatusOr<Experiment> LoadText(const std::string& text,
                                           const std::vector<std::string>& overrides) {
  return LoadExperiment(WriteExperiment(text), overrides);
}

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_CONFIG_TEST_UTIL_H_
