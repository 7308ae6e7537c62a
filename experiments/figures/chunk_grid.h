// A ring's all-reduce as one grid of ranks and chunks after each of its steps. Pure.
#ifndef PSRING_EXPERIMENTS_FIGURES_CHUNK_GRID_H_
#define PSRING_EXPERIMENTS_FIGURES_CHUNK_GRID_H_

#include <optional>
#include <string>
#include <vector>

#include "experiments/explain/story.h"

namespace psring {

struct ChunkCell {
  int rank = 0;
  int chunk = 0;
  float value = 0;
  std::vector<int> terms;   // The ranks whose terms the value is the sum of.
  std::optional<int> from;  // Who sent it here in this step; none: nobody did.
};

struct ChunkGrid {
  std::string title;
  std::vector<std::string> notes;  // What holds now.
  std::vector<ChunkCell> cells;    // By rank, then by chunk.
};

// Before the first step, and after each one. The story is of an all-reduce in chunks of
// one element each.
std::vector<ChunkGrid> GridsOf(const Story& story);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_FIGURES_CHUNK_GRID_H_
