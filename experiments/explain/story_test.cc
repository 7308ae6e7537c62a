#include "experiments/explain/story.h"

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(StoryTest, InputsShowRankAndElement) {
  EXPECT_EQ(StoryInput(0, 0), 1);
  EXPECT_EQ(StoryInput(2, 5), 600);
  EXPECT_EQ(StoryInput(6, 8), 9'000'000);
  EXPECT_EQ(StoryInput(1, 9), 10);
}

TEST(StoryTest, ASumTellsWhoseTermsItHas) {
  EXPECT_THAT(StoryTerms(0), IsEmpty());
  EXPECT_THAT(StoryTerms(1), ElementsAre(0));
  EXPECT_THAT(StoryTerms(6'600), ElementsAre(2, 3));
  float sum = 0;
  for (int rank = 0; rank < kMostStoryRanks; ++rank) {
    if (rank != 4) sum += StoryInput(rank, 8);
  }
  EXPECT_THAT(StoryTerms(sum), ElementsAre(0, 1, 2, 3, 5, 6));
}

TEST(StoryTest, CountsOfElements) {
  EXPECT_EQ(CountOfElements(1), "1 element");
  EXPECT_EQ(CountOfElements(12), "12 elements");
}

Story TwoSteps() {
  Story story;
  story.title = "A story";
  story.introduction = {"It begins."};
  story.endpoints = {"worker 0", "worker 1", "server"};
  story.workers = 2;
  story.count = 4;
  story.steps = {
      {.title = "push",
       .transfers =
           {{.from = 0, .to = 2, .range = {0, 4}, .sent = {1, 2, 3, 4}, .then = {}},
            {.from = 1, .to = 2, .range = {0, 2}, .sent = {10, 20}, .then = {}}},
       .notes = {"Enough."}},
      {.title = "pull",
       .transfers = {{.from = 2, .to = 0, .range = {3, 1}, .sent = {0.5}, .then = {0.5}}},
       .notes = {}}};
  return story;
}

TEST(StoryTest, TellsEveryTransferAndTheBytesSoFar) {
  EXPECT_EQ(Tell(TwoSteps()),
            "A story\n"
            "\n"
            "It begins.\n"
            "\n"
            "  element    0   1   2   3\n"
            "  worker 0   1   2   3   4\n"
            "  worker 1  10  20  30  40\n"
            "\n"
            "Step 1 of 2: push\n"
            "\n"
            "  link                chunk  element     sent  then there\n"
            "  worker 0 -> server    all      0-3  1 2 3 4        held\n"
            "  worker 1 -> server      0      0-1    10 20        held\n"
            "\n"
            "  bytes so far, out/in: worker 0: 16/0, worker 1: 8/0, server: 0/24\n"
            "  Enough.\n"
            "\n"
            "Step 2 of 2: pull\n"
            "\n"
            "  link                chunk  element  sent  then there\n"
            "  server -> worker 0   part        3   0.5         0.5\n"
            "\n"
            "  bytes so far, out/in: worker 0: 16/4, worker 1: 8/0, server: 4/24\n"
            "\n"
            "Busiest: server, with 24 bytes one way; the workers' mean is 12. Hot-spot\n"
            "factor: 2.00.\n");
}

TEST(StoryTest, AChunkThatIsAllKeepsItsNumberInARing) {
  Story story = TwoSteps();
  story.in_chunks = true;
  story.count = 1;
  for (StoryStep& step : story.steps) {
    for (Transfer& transfer : step.transfers) transfer.range = {0, 1};
  }
  EXPECT_THAT(Tell(story), AllOf(HasSubstr("worker 0 -> server      0        0"),
                                 Not(HasSubstr("all"))));
}

TEST(StoryTest, LongValuesAndManyRanksFitTheLine) {
  Story story;
  story.title = "Wide";
  story.introduction = {std::string(300, 'a') + " " + std::string(79, 'b')};
  story.workers = kMostStoryRanks;
  story.count = 10'000;
  StoryStep step{.title = "everything", .transfers = {}, .notes = {}};
  for (int rank = 0; rank < kMostStoryRanks; ++rank) {
    story.endpoints.push_back("worker " + std::to_string(rank));
    const std::vector<float> values(10'000, 9'999'999.0f);
    step.transfers.push_back(
        {.from = rank, .to = 0, .range = {0, 10'000}, .sent = values, .then = values});
  }
  story.steps = {step};
  const std::string text = Tell(story);
  EXPECT_THAT(text, HasSubstr("9999999 .. 9999999"));
  for (const auto line : absl::StrSplit(text, '\n')) {
    if (absl::StartsWith(line, "aaa")) continue;  // One word alone.
    EXPECT_LE(line.size(), 80) << line;
  }
}

}  // namespace
}  // namespace psring
