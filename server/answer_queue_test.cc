#include "server/answer_queue.h"

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;

std::vector<std::string> All(AnswerQueue<std::string>& queue) {
  std::vector<std::string> all;
  while (!queue.empty()) all.push_back(queue.Pop());
  return all;
}

TEST(AnswerQueueTest, WhatTheNextForwardNeedsFirstGoesFirst) {
  AnswerQueue<std::string> queue;
  queue.Push(200, "last layer");
  queue.Push(0, "first layer");
  queue.Push(100, "middle");
  EXPECT_THAT(All(queue), ElementsAre("first layer", "middle", "last layer"));
}

TEST(AnswerQueueTest, AlsoAmongThoseThatComeWhileOthersAreSent) {
  AnswerQueue<std::string> queue;
  queue.Push(300, "d");
  queue.Push(200, "c");
  EXPECT_EQ(queue.Pop(), "c");
  queue.Push(100, "b");
  queue.Push(0, "a");
  EXPECT_THAT(All(queue), ElementsAre("a", "b", "d"));
}

TEST(AnswerQueueTest, ASlotsAnswersKeepTheirOrder) {
  AnswerQueue<std::string> queue;
  queue.Push(100, "b0");
  queue.Push(100, "b1");
  queue.Push(0, "a1");
  queue.Push(100, "b2");
  queue.Push(0, "a2");
  EXPECT_THAT(All(queue), ElementsAre("b0", "a1", "b1", "a2", "b2"));
}

TEST(AnswerQueueTest, WhatIsAboutNoSlotGoesLastInItsRound) {
  AnswerQueue<std::string> queue;
  queue.Push(std::numeric_limits<int64_t>::max(), "left");
  queue.Push(100, "b");
  queue.Push(100, "next b");
  EXPECT_THAT(All(queue), ElementsAre("b", "left", "next b"));
}

// A slot that comes again and again, always with an answer waiting, passes another one
// once.
TEST(AnswerQueueTest, NobodyStarves) {
  AnswerQueue<std::string> queue;
  queue.Push(100, "slow");
  int overtaken = 0;
  queue.Push(0, "fast");
  for (; queue.Pop() != "slow"; ++overtaken) {
    ASSERT_LT(overtaken, 100);
    queue.Push(0, "fast");
    queue.Push(50, "as fast");
  }
  EXPECT_LE(overtaken, 2);
}

TEST(AnswerQueueTest, ClearedItIsEmptyAndOwnsNothing) {
  AnswerQueue<std::shared_ptr<int>> queue;
  const auto answer = std::make_shared<int>(1);
  queue.Push(0, answer);
  queue.Push(1, answer);
  EXPECT_EQ(queue.Pop(), answer);
  EXPECT_FALSE(queue.empty());
  queue.Clear();
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(answer.use_count(), 1);
}

}  // namespace
}  // namespace psring
