// What a person sees of a run while it goes on, as values.
#ifndef PSRING_EXPERIMENTS_LIVE_LIVE_STATE_H_
#define PSRING_EXPERIMENTS_LIVE_LIVE_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/progress.h"

namespace psring {

// What a host's link or a process carries at present, in bytes per second.
struct LiveLink {
  std::string name;  // "worker 1", "rack 0", "servers 0-3".
  double out_bytes_s = 0;
  double in_bytes_s = 0;
  // What it can carry; 0: not known.
  double out_capacity = 0;
  double in_capacity = 0;
};

struct LiveWorker {
  int64_t rank = 0;
  int64_t steps = 0;
  // Of its last contribution; none where there has been none, or there are no servers.
  std::optional<int64_t> clock_lag = std::nullopt;
};

struct LiveState {
  std::string arm;  // "async, seed 3"
  // Of all runs of the comparison, from 1; 0: it is the only one.
  int position = 0;
  int positions = 0;
  int64_t steps = 0;
  ArmProgress progress;
  // Frames on links that the kernel has counted; else payload by the workers' records.
  bool frames = false;
  std::vector<LiveLink> links;
  std::vector<LiveWorker> workers;  // By rank.
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_LIVE_LIVE_STATE_H_
