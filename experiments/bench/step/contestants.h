// Who takes part in `psring bench step`, and the experiments that psring's own run. Pure.
#ifndef PSRING_EXPERIMENTS_BENCH_STEP_CONTESTANTS_H_
#define PSRING_EXPERIMENTS_BENCH_STEP_CONTESTANTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/bench/step/options.h"
#include "proto/experiment.pb.h"

namespace psring {

// One way to train, as rows name it.
struct StepContestant {
  std::string peer;  // "psring", "pytorch".
  std::string arm;   // "ring", "servers", "local"; PyTorch's "ddp", "local".
  std::string
      transport;  // "tcp", "shared_memory", "grpc"; empty where one rank is alone.
  int ranks = 1;
  std::optional<int64_t> cap_bytes = std::nullopt;  // None: there is nothing to exchange.

  // "psring-ring-tcp-1048576": good for a folder, and different for each.
  std::string name() const;
};

// The bucket size of DistributedDataParallel if it is told nothing.
inline constexpr int64_t kPytorchDefaultCap = int64_t{25} << 20;

// In the order of the rows: psring's arms, the ring's with each transport, all with each
// cap, and one rank alone; then PyTorch, where asked for: the same ranks with its own cap
// and with those that are asked for, where psring has several ranks, and one alone where
// psring has that.
std::vector<StepContestant> StepContestants(const StepBenchOptions& options,
                                            const StepSettings& settings);

// The reference of a contestant: psring's first one with as many ranks; none for that
// itself, nor where there is none.
std::optional<int> StepReferenceOf(const std::vector<StepContestant>& contestants,
                                   int index);

// Steps that a contestant makes in a round. The last one is not timed: it ends with the
// checks of the run.
int64_t StepsOfRound(const StepBenchOptions& options);

// What a contestant of psring's runs, with a seed for each round, on the data in that
// folder.
Experiment StepExperiment(const StepBenchOptions& options, const StepSettings& settings,
                          const StepContestant& contestant, const std::string& data);

// Of the optimizer, for every contestant alike.
inline constexpr float kStepLearningRate = 0.01f;
inline constexpr float kStepMomentum = 0.9f;

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_STEP_CONTESTANTS_H_
