#include "experiments/figures/chunk_grid.h"

#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace psring {

std::vector<ChunkGrid> GridsOf(const Story& story) {
  CHECK(story.in_chunks);
  CHECK_EQ(story.count, story.workers);
  ChunkGrid now = {
      .title = "Before: every rank has its own terms", .notes = {}, .cells = {}};
  for (int rank = 0; rank < story.workers; ++rank) {
    for (int chunk = 0; chunk < story.workers; ++chunk) {
      now.cells.push_back({.rank = rank,
                           .chunk = chunk,
                           .value = StoryInput(rank, chunk),
                           .terms = {rank},
                           .from = std::nullopt});
    }
  }
  std::vector<ChunkGrid> grids = {now};
  for (size_t i = 0; i < story.steps.size(); ++i) {
    const StoryStep& step = story.steps[i];
    now.title = absl::StrCat("Step ", i + 1, ": ", step.title);
    now.notes = step.notes;
    for (ChunkCell& cell : now.cells) cell.from = std::nullopt;
    for (const Transfer& transfer : step.transfers) {
      CHECK_EQ(transfer.range.count, 1);
      CHECK_EQ(transfer.then.size(), 1u);
      ChunkCell& cell = now.cells[transfer.to * story.workers + transfer.range.begin];
      cell.value = transfer.then.front();
      cell.terms = StoryTerms(cell.value);
      cell.from = transfer.from;
    }
    grids.push_back(now);
  }
  return grids;
}

}  // namespace psring
