// What a rank of data parallelism keeps in memory for each parameter, by how much of it
// the ranks share out among themselves. Pure.
#ifndef PSRING_EXPERIMENTS_FIGURES_MEMORY_SHARES_H_
#define PSRING_EXPERIMENTS_FIGURES_MEMORY_SHARES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace psring {

// Training with Adam in mixed precision: parameters and gradients of 16 bits, and in fp32
// a copy of the parameters and Adam's two moments. Source of the count, and of the levels
// of sharing: Rajbhandari et al., 2020, "ZeRO".
struct MixedPrecisionPart {
  const char* name;  // "gradients"
  int bytes;         // For a parameter.
  int shared_from;   // The lowest level at which a rank keeps only its share.
};
const std::vector<MixedPrecisionPart>& MixedPrecisionParts();

// 0 shares nothing; then, in this order, the optimizer's state, also gradients, also
// parameters: "and gradients".
inline constexpr int kSharingLevels = 4;
const char* SharingName(int level);

// Bytes for a parameter, of all parts: 16.
int64_t MixedPrecisionBytes();
// Of one part on each of so many ranks, per parameter; and the sum over all parts.
double BytesAtLevel(const MixedPrecisionPart& part, int level, int ranks);
double BytesAtLevel(int level, int ranks);

// The fp32 training of psring on a ring: what one worker has, from the formula that its
// memory is held against (experiments/memory_budget.h).
struct BudgetBytes {
  std::string optimizer;  // "momentum"
  bool sharded = false;   // ring { sharded_optimizer: true }
  std::string purpose;    // "optimizer state"
  double bytes_per_parameter = 0;
};

// Of the worker that has most. Requires one of FigureModels and ranks >= 2.
std::vector<BudgetBytes> RingBudgets(const std::string& model, int ranks);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_FIGURES_MEMORY_SHARES_H_
