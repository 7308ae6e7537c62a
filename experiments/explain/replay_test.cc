#include "experiments/explain/replay.h"

#include "absl/status/status.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr ReplayTitles kTitles = {.adding = "adding", .spreading = "spreading"};

// Two ranks, two elements: rank 1 sends all to rank 0, which adds and sends the sums.
ObservedOperation GatherAndBroadcast() {
  ObservedOperation operation;
  operation.moves.resize(2);
  operation.moves[0].Append(MoveKind::kAdd, 1, {0, 2});
  operation.moves[0].Append(MoveKind::kSend, 1, {0, 2}, 0);
  operation.moves[1].Append(MoveKind::kSend, 0, {0, 2});
  operation.moves[1].Append(MoveKind::kReplace, 0, {0, 2}, 0);
  operation.inputs = {{1, 2}, {10, 20}};
  operation.sent = {{{1, 0}, {10, 20}}, {{0, 1}, {11, 22}}};
  operation.results = {{11, 22}, {11, 22}};
  return operation;
}

// Each rank sends the other all it has, and adds what it gets.
ObservedOperation Exchange() {
  ObservedOperation operation;
  operation.moves.resize(2);
  for (int rank = 0; rank < 2; ++rank) {
    operation.moves[rank].Append(MoveKind::kSend, 1 - rank, {0, 1});
    operation.moves[rank].Append(MoveKind::kAdd, 1 - rank, {0, 1}, 0);
  }
  operation.inputs = {{1}, {10}};
  operation.sent = {{{1, 0}, {10}}, {{0, 1}, {1}}};
  operation.results = {{11}, {11}};
  return operation;
}

TEST(ReplayTest, AMoveThatTrailsAnotherComesInALaterStep) {
  const auto steps = Replay(GatherAndBroadcast(), kTitles);
  ASSERT_OK(steps.status());
  ASSERT_EQ(steps->size(), 2);
  EXPECT_EQ((*steps)[0].title, "adding");
  ASSERT_EQ((*steps)[0].transfers.size(), 1);
  const Transfer& up = (*steps)[0].transfers[0];
  EXPECT_EQ(up.from, 1);
  EXPECT_EQ(up.to, 0);
  EXPECT_THAT(up.sent, ElementsAre(10, 20));
  EXPECT_THAT(up.then, ElementsAre(11, 22));
  EXPECT_THAT((*steps)[0].notes, ElementsAre(HasSubstr("rank 0 has 0-1.")));
  EXPECT_EQ((*steps)[1].title, "spreading");
  EXPECT_THAT((*steps)[1].transfers[0].then, ElementsAre(11, 22));
  EXPECT_THAT((*steps)[1].notes, ElementsAre(HasSubstr("Every rank has every sum")));
}

TEST(ReplayTest, AnExchangeIsOneStep) {
  const auto steps = Replay(Exchange(), kTitles);
  ASSERT_OK(steps.status());
  ASSERT_EQ(steps->size(), 1);
  const std::vector<Transfer>& transfers = (*steps)[0].transfers;
  ASSERT_EQ(transfers.size(), 2);
  EXPECT_THAT(transfers[0].sent, ElementsAre(1));
  EXPECT_THAT(transfers[1].sent, ElementsAre(10));
  for (const Transfer& transfer : transfers) EXPECT_THAT(transfer.then, ElementsAre(11));
}

TEST(ReplayTest, WhatWasSentMustBeWhatTheMovesSay) {
  const auto error_of = [](const ObservedOperation& operation) {
    return Replay(operation, kTitles).status();
  };
  const auto is = [](const char* text) {
    return StatusIs(absl::StatusCode::kDataLoss, HasSubstr(text));
  };
  ObservedOperation operation = GatherAndBroadcast();
  operation.sent[{0, 1}] = {11, 23};
  EXPECT_THAT(error_of(operation), is("rank 0 did not send rank 1 what it should"));
  operation = GatherAndBroadcast();
  operation.sent[{0, 1}] = {11};
  EXPECT_THAT(error_of(operation), is("rank 0 did not send rank 1 what it should"));
  operation = GatherAndBroadcast();
  operation.sent[{1, 0}] = {10, 20, 30};
  EXPECT_THAT(error_of(operation), is("rank 1 sent rank 0 more than it should"));
  operation = GatherAndBroadcast();
  operation.results[1] = {11, 0};
  EXPECT_THAT(error_of(operation), is("rank 1 has a wrong element 1: 0"));
}

TEST(ReplayTest, MovesThatWaitForEachOtherAreFound) {
  ObservedOperation operation = Exchange();
  for (MoveList& moves : operation.moves) std::swap(moves[0], moves[1]);
  for (MoveList& moves : operation.moves) moves[1].since = 0;
  EXPECT_THAT(Replay(operation, kTitles).status(),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("wait for each other")));
}

}  // namespace
}  // namespace psring
