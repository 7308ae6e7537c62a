// What the exchange of a step costs by a model of latency, bandwidth and arithmetic.
// Pure.
#ifndef PSRING_EXPERIMENTS_PROBE_COST_MODEL_H_
#define PSRING_EXPERIMENTS_PROBE_COST_MODEL_H_

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/probe/probed_link.h"
#include "proto/coordinator.pb.h"

namespace psring {

// Of one processor that does nothing else, in bytes of gradients per second.
struct ArithmeticRates {
  double add = 0;    // A ring's rank adds what it receives.
  double apply = 0;  // A server sums contributions and applies the optimizer.
};

// Seconds per step.
struct ExchangeCost {
  double latency = 0;
  double transfer = 0;
  double arithmetic = 0;

  double total() const { return latency + transfer + arithmetic; }
};

// The model of Hockney (1994): a message of n bytes takes alpha + n beta, and arithmetic
// on n bytes n gamma. alpha is the longest latency among the arm's links, and the longest
// delay that is set. beta is each
// link's own, 1 / its payload rate with both directions busy; where all links are alike
// the terms are those below, else each is that of the host, or the direction, that takes
// longest. gamma is 1 / a rate above. With N workers and m bytes in a bucket, P the
// largest power of two that is not above N, and L = log2 P (rounded up for a tree):
//
//   algorithm           latency               transfer            arithmetic
//   RING                2 (N-1) alpha         2 (N-1)/N m beta    (N-1)/N m gamma
//   HALVING_DOUBLING    2 L alpha             2 (P-1)/P m beta    (P-1)/P m gamma
//     small buckets     L alpha               L m beta            L m gamma
//     N > P             + 2 alpha             + what pairs move   + m gamma
//   TREE                2 L alpha             2 L m beta          L m gamma
//   GATHER_BROADCAST    2 alpha               2 (N-1) m beta      (N-1) m gamma
//
// summed over buckets, which go one after the other. With a sharded optimizer the
// bytes are those of a reduce-scatter and an all-gather. Of these each goes up and down a
// tree, and pairs take part in each: TREE, GATHER_BROADCAST and N > P have twice the
// messages above. Small buckets are as large ones. What is added is the same. RING and
// HALVING_DOUBLING send while they receive; the other two first gather and then give out,
// which takes the root's link both times. Source: Thakur, Rabenseifner and Gropp (2005),
// for the ring as a reduce-scatter and an all-gather, for halving-doubling and for trees;
// gather-broadcast follows from counting the root's messages.
//
// Servers, this model's own: one that owns M/S of the M bytes receives N M/S (less where
// the wire is not fp32) and sends N M/S. Answers of one bucket go out while the
// next comes in, so the directions overlap, but for the last bucket's, which go out when
// it has come in whole (l bytes of it are the server's):
//
//   2 alpha  +  (N M/S + N l) beta  +  N M/S gamma
//
// and N - 1 in place of N before beta where a server shares the host of a worker.
//
// In both, arithmetic is not taken to overlap with transfer, as in the source; psring
// adds while it receives, so where the arithmetic is not small, the model is above the
// truth. It knows no framing, no losses and no waiting for workers, and takes each
// process to have a processor of its own.
//
// NotFound: nothing moves; or the errors of MeasurementOf.
absl::StatusOr<ExchangeCost> PredictExchange(const JobSpec& spec,
                                             const std::vector<ProbedLink>& probed,
                                             const ArithmeticRates& rates);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_PROBE_COST_MODEL_H_
