// What `psring bench push-pull` is asked to do.
#ifndef PSRING_EXPERIMENTS_BENCH_PUSH_PULL_OPTIONS_H_
#define PSRING_EXPERIMENTS_BENCH_PUSH_PULL_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/bench/options.h"
#include "proto/bench.pb.h"

namespace psring {

struct PushPullOptions : RoundOptions {
  int workers = 2;
  int servers = 1;
  std::string mode = "sync";
  std::optional<int64_t> bound = std::nullopt;  // Of bounded; default: 1.
  std::string placement = "striped";
  std::string inventory = {};  // Empty: one tensor.
  std::string wire = "fp32";
  std::string slot_bytes = "1M";
  std::vector<std::string> contestants = {"psring", "grpc", "tcp"};

  std::string json_path;  // Empty: none; the same below.
  std::string csv_path;
};

// Checked.
struct PushPullSettings {
  std::vector<int64_t> sizes;  // In bytes.
  PushPullJob job;
};

// kInvalidArgument: with the flag and what is allowed.
absl::StatusOr<PushPullSettings> CheckPushPullOptions(const PushPullOptions& options);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_PUSH_PULL_OPTIONS_H_
