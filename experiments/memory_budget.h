// How much memory each process of an arm has for what, by formula alone. Pure.
#ifndef PSRING_EXPERIMENTS_MEMORY_BUDGET_H_
#define PSRING_EXPERIMENTS_MEMORY_BUDGET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/job_plan.h"
#include "proto/coordinator.pb.h"

namespace psring {

// Of one purpose (common/memory_gauge.h).
struct PurposeBudget {
  std::string purpose;
  int64_t bytes = 0;
  // A process has exactly so much; else at most, because it depends on who comes when.
  bool exact = true;
};

struct ProcessBudget {
  std::string name;  // "worker 0"
  std::string role;  // "worker", "server"
  std::vector<PurposeBudget> purposes;
};

// Versions of the parameters that are kept over the run, to be evaluated: every so many
// steps, and always the last.
int64_t SnapshotCount(const JobSpec& spec);

// Workers in rank order, then servers. With M bytes of parameters, N workers, optimizer
// state of k floats an element, and M_s bytes of parameters in the slots of server s:
//
//   worker: parameters M, gradients M; with micro-batches M for their sum. Optimizer
//     state k M on a ring or alone, none with servers; where the ring's optimizer is
//     sharded, k times the worker's own chunks. With another wire than fp32, wire
//     buffers: with servers each slot as it is sent, with top_k also M for what is left
//     out and 4 bytes for each element of each server's largest slot; on a ring 2 bytes
//     for each element of the largest bucket.
//   server: parameters M_s, optimizer state k M_s. Contributions at most N M_s: each
//     worker's once (with a fixed delay of d, d + 1 of them, as that many may be under
//     way). Older versions at most M_s for each that is kept (snapshots, those that a
//     fixed delay asks for) and for each that may still be read: 1 in lockstep, where a
//     round closes only when all have got the version before; else 2 of each worker.
std::vector<ProcessBudget> MemoryBudget(const JobSpec& spec, const JobPlan& plan);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_MEMORY_BUDGET_H_
