// What the results of an arm are made of.
#ifndef PSRING_EXPERIMENTS_ARM_RECORDS_H_
#define PSRING_EXPERIMENTS_ARM_RECORDS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "experiments/communication.h"
#include "experiments/hosts/link_reading.h"
#include "experiments/probe/probed_link.h"
#include "experiments/tensor_digest.h"
#include "proto/record.pb.h"

namespace psring {

// The contributions of one worker to one slot.
struct ContributionTotals {
  int64_t made = 0;   // Applied or dropped.
  int64_t steps = 0;  // Different ones among them.
  int64_t late = 0;   // Of `made`: dropped because the round had closed.
  int64_t stale = 0;  // The same because of too much staleness.
  int64_t clock_lag_max = 0;
  // Of `made`: applied onto another version than step * workers + rank.
  int64_t out_of_turn = 0;
};

// The updates of one slot that were made of the same number of contributions.
struct UpdateTotals {
  int64_t updates = 0;
  // Of the versions that they were applied onto.
  int64_t first_version = 0;
  int64_t last_version = 0;
};

struct SlotTotals {
  std::map<int, ContributionTotals> workers;  // By rank.
  std::map<int64_t, UpdateTotals> updates;    // By number of contributions.
};

// Applied contributions to slots that have the same staleness.
struct StalenessTotals {
  int64_t count = 0;
  int64_t of_version_0 = 0;  // Of `count`: computed from version 0.
};

// Contributions are summed up, so that they take no more memory in a long run than in a
// short one.
struct ArmRecords {
  // By rank, then by step; the four causes of exposed time are those of `waits`.
  std::vector<std::vector<StepRecord>> steps;
  Communication communication;
  std::map<int, SlotTotals> slots;  // By index.
  // By rank, then by staleness.
  std::map<int, std::map<int64_t, StalenessTotals>> staleness;
  std::map<std::string, TrafficRecord> traffic;  // By process.
  // By process, then by purpose: bytes.
  std::map<std::string, std::map<std::string, int64_t>> memory;
  // Of tensors that were not the same on all ranks, after the first step where any was.
  std::vector<TensorDigest> tensor_digests;
  std::vector<EvaluationRecord> evaluations;  // By step.
  // Processor time of all recording outside the training threads.
  absl::Duration recording = absl::ZeroDuration();
  // Of the links of emulated hosts, in order of time; empty where there were none.
  std::vector<HostsReading> readings;
  std::vector<ProbedLink> probed_links;  // Each kind of such links, before all runs.
  // With such links: how long a bucket of some worker was on its way.
  absl::Duration moving = absl::ZeroDuration();
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_ARM_RECORDS_H_
