// An exchange told step by step, for people who learn how it works. Pure.
#ifndef PSRING_EXPERIMENTS_EXPLAIN_STORY_H_
#define PSRING_EXPERIMENTS_EXPLAIN_STORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/partition.h"

namespace psring {

inline constexpr int kMostStoryRanks = 7;

// What rank `rank` puts in for an element: a digit that tells the element, at a place
// that tells the rank, as in 600 for rank 2 and element 5. A partial sum so shows whose
// terms it holds, and up to kMostStoryRanks ranks sum exactly.
float StoryInput(int rank, int64_t element);

// The ranks whose terms are in a sum of such inputs of one element.
std::vector<int> StoryTerms(float sum);

// "1 element", "12 elements".
std::string CountOfElements(int64_t count);

// Floats that went from one endpoint to another.
struct Transfer {
  int from = 0;
  int to = 0;
  Range range;
  std::vector<float> sent = {};
  std::vector<float> then =
      {};  // What the receiver has there after it; empty: nothing yet.
};

struct StoryStep {
  std::string title;
  std::vector<Transfer> transfers;  // At the same time.
  std::vector<std::string> notes;   // What holds after it.
};

struct Story {
  std::string title;
  std::vector<std::string> introduction;
  std::vector<std::string> endpoints;  // Their names: workers first, then servers.
  int workers = 0;
  int64_t count = 0;  // Elements.
  // Every transfer is of a chunk, as a ring cuts the values, even where that is all.
  bool in_chunks = false;
  std::vector<StoryStep> steps;
};

// The text, in lines of at most 80 columns: the inputs, the steps, after each of them
// the bytes that every endpoint has sent and received so far, and in the end the busiest
// endpoint.
std::string Tell(const Story& story);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_EXPLAIN_STORY_H_
