#include "common/checkpoint_rounds.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr absl::Duration kNow = absl::ZeroDuration();

Member MakeMember(Role role, int rank) {
  Member member;
  member.set_role(role);
  member.set_rank(rank);
  return member;
}

// "HOLD 1 before 12", "HOLD 1 advance 2", "SAVE 1 at 12", "RESUME 1"; "-": no order.
std::string Text(const CheckpointRounds::Outcome& outcome) {
  if (!outcome.order) return "-";
  const CheckpointOrder& order = *outcome.order;
  std::string text =
      absl::StrCat(CheckpointOrder::Kind_Name(order.kind()), " ", order.round());
  if (order.before_step() > 0) absl::StrAppend(&text, " before ", order.before_step());
  if (order.advance() > 0) absl::StrAppend(&text, " advance ", order.advance());
  if (order.step() > 0) absl::StrAppend(&text, " at ", order.step());
  return text;
}

class CheckpointRoundsTest : public testing::Test {
 protected:
  static CheckpointRounds::Plan Lockstep(int64_t every_steps = 0) {
    return {.workers = 2,
            .servers = 0,
            .lockstep = true,
            .steps = 100,
            .every_steps = every_steps,
            .first_step = 0,
            .folder = "/c",
            .deadline = absl::Seconds(10)};
  }

  static CheckpointRounds::Outcome Say(CheckpointRounds& rounds,
                                       CheckpointReply::Kind kind, int rank,
                                       int64_t round, int64_t step, int64_t advance = 0) {
    CheckpointReply reply;
    reply.set_kind(kind);
    reply.set_round(round);
    reply.set_step(step);
    reply.set_advance(advance);
    return rounds.Take(MakeMember(WORKER, rank), reply);
  }
  static CheckpointRounds::Outcome Saved(CheckpointRounds& rounds, Role role, int rank,
                                         int64_t round) {
    CheckpointReply reply;
    reply.set_kind(CheckpointReply::SAVED);
    reply.set_round(round);
    reply.mutable_file()->set_name(absl::StrCat("part-", rank));
    return rounds.Take(MakeMember(role, rank), reply);
  }
};

TEST_F(CheckpointRoundsTest, InLockstepAllHoldBeforeAStepThatNobodyHasBegun) {
  CheckpointRounds rounds(Lockstep());
  EXPECT_EQ(Text(rounds.Start()), "-");
  EXPECT_FALSE(rounds.under_way());
  EXPECT_EQ(Text(rounds.Request(kNow)), "HOLD 1");
  EXPECT_TRUE(rounds.under_way());
  EXPECT_EQ(Text(Say(rounds, CheckpointReply::PROMISES, 0, 1, 12)), "-");
  // It is there before the other has promised anything.
  EXPECT_EQ(Text(Say(rounds, CheckpointReply::HOLDS, 0, 1, 12)), "-");
  EXPECT_EQ(Text(Say(rounds, CheckpointReply::PROMISES, 1, 1, 13)), "HOLD 1 before 13");
  EXPECT_EQ(Text(Say(rounds, CheckpointReply::HOLDS, 1, 1, 13)), "-");
  const auto save = Say(rounds, CheckpointReply::HOLDS, 0, 1, 13);
  EXPECT_EQ(Text(save), "SAVE 1 at 13");
  EXPECT_EQ(save.order->folder(), "/c/step-13");
  EXPECT_FALSE(Saved(rounds, WORKER, 1, 1).saved);
  const auto saved = Saved(rounds, WORKER, 0, 1);
  ASSERT_TRUE(saved.saved);
  EXPECT_EQ(saved.saved->step, 13);
  EXPECT_EQ(saved.saved->folder, "/c/step-13");
  EXPECT_THAT(saved.saved->next_steps, ElementsAre(13, 13));
  ASSERT_THAT(saved.saved->parts, SizeIs(2));
  EXPECT_EQ(saved.saved->parts[0].name(), "part-0");
  EXPECT_EQ(Text(saved), "-");  // Nobody goes on before the manifest is there.
  EXPECT_EQ(Text(rounds.Complete()), "RESUME 1");
  EXPECT_FALSE(rounds.under_way());
}

TEST_F(CheckpointRoundsTest, WhoHoldsThereAlreadyNeedsNoFurtherOrder) {
  CheckpointRounds rounds(Lockstep());
  rounds.Request(kNow);
  Say(rounds, CheckpointReply::PROMISES, 0, 1, 12);
  Say(rounds, CheckpointReply::HOLDS, 0, 1, 12);
  Say(rounds, CheckpointReply::HOLDS, 1, 1, 12);
  EXPECT_EQ(Text(Say(rounds, CheckpointReply::PROMISES, 1, 1, 12)), "SAVE 1 at 12");
}

TEST_F(CheckpointRoundsTest, WhatIsDueIsOrderedFromTheStart) {
  CheckpointRounds rounds(Lockstep(/*every_steps=*/30));
  EXPECT_EQ(Text(rounds.Start()), "HOLD 1 before 30");
  EXPECT_FALSE(rounds.under_way());
  EXPECT_EQ(Text(rounds.Tick(absl::Hours(1))), "-");
  Say(rounds, CheckpointReply::HOLDS, 0, 1, 30);
  EXPECT_EQ(Text(Say(rounds, CheckpointReply::HOLDS, 1, 1, 30)), "SAVE 1 at 30");
  EXPECT_EQ(Text(rounds.Request(kNow)), "-");  // The one under way will do.
  Saved(rounds, WORKER, 0, 1);
  Saved(rounds, WORKER, 1, 1);
  EXPECT_EQ(Text(rounds.Complete()), "HOLD 2 before 60");
  // One in between moves nothing.
  EXPECT_EQ(Text(rounds.Request(kNow)), "HOLD 3");
  Say(rounds, CheckpointReply::PROMISES, 0, 3, 41);
  Say(rounds, CheckpointReply::PROMISES, 1, 3, 41);
  EXPECT_EQ(Text(Say(rounds, CheckpointReply::HOLDS, 0, 2, 41)),
            "-");  // Of another round.
  Say(rounds, CheckpointReply::HOLDS, 0, 3, 41);
  EXPECT_EQ(Text(Say(rounds, CheckpointReply::HOLDS, 1, 3, 41)), "SAVE 3 at 41");
  Saved(rounds, WORKER, 0, 3);
  Saved(rounds, WORKER, 1, 3);
  EXPECT_EQ(Text(rounds.Complete()), "HOLD 4 before 60");
}

TEST_F(CheckpointRoundsTest, NothingIsDueAtTheEndAndARestoredRunCountsFromWhereItIs) {
  CheckpointRounds::Plan plan = Lockstep(/*every_steps=*/30);
  plan.first_step = 70;
  CheckpointRounds rounds(plan);
  EXPECT_EQ(Text(rounds.Start()), "HOLD 1 before 90");
  plan.first_step = 90;
  EXPECT_EQ(Text(CheckpointRounds(plan).Start()), "-");
  plan.steps = 120;  // The last step is no use for a checkpoint.
  EXPECT_EQ(Text(CheckpointRounds(plan).Start()), "-");
}

TEST_F(CheckpointRoundsTest, ServersSaveWhereThereAreAny) {
  CheckpointRounds::Plan plan = Lockstep();
  plan.servers = 1;
  CheckpointRounds rounds(plan);
  rounds.Request(kNow);
  for (const int rank : {0, 1}) {
    Say(rounds, CheckpointReply::HOLDS, rank, 1, 5);
    Say(rounds, CheckpointReply::PROMISES, rank, 1, 5);
  }
  EXPECT_FALSE(Saved(rounds, WORKER, 0, 1).saved);
  const auto saved = Saved(rounds, SERVER, 0, 1);
  ASSERT_TRUE(saved.saved);
  EXPECT_THAT(saved.saved->parts, SizeIs(1));
}

// Worker 1 may wait in a step for worker 0, which holds.
TEST_F(CheckpointRoundsTest, ElsewhereWhoHoldsGoesAStepFurtherUntilAllHold) {
  CheckpointRounds::Plan plan = Lockstep();
  plan.lockstep = false;
  CheckpointRounds rounds(plan);
  EXPECT_EQ(Text(rounds.Request(kNow)), "HOLD 1");
  EXPECT_EQ(Text(Say(rounds, CheckpointReply::PROMISES, 0, 1, 12)), "-");
  EXPECT_EQ(Text(Say(rounds, CheckpointReply::PROMISES, 1, 1, 40)), "-");
  EXPECT_EQ(Text(rounds.Tick(absl::Milliseconds(150))), "-");  // Nobody holds.
  Say(rounds, CheckpointReply::HOLDS, 0, 1, 12);
  EXPECT_EQ(Text(rounds.Tick(absl::Milliseconds(150))), "HOLD 1 advance 1");
  // Said before it heard of that.
  Say(rounds, CheckpointReply::HOLDS, 0, 1, 12);
  EXPECT_EQ(Text(Say(rounds, CheckpointReply::HOLDS, 1, 1, 40, 1)), "-");
  EXPECT_EQ(Text(rounds.Tick(absl::Milliseconds(340))), "-");  // More patient now.
  EXPECT_EQ(Text(rounds.Tick(absl::Milliseconds(351))), "HOLD 1 advance 2");
  Say(rounds, CheckpointReply::HOLDS, 1, 1, 41, 2);
  // 14 + 41 contributions, so 27 steps of both.
  EXPECT_EQ(Text(Say(rounds, CheckpointReply::HOLDS, 0, 1, 14, 2)), "SAVE 1 at 27");
  Saved(rounds, WORKER, 0, 1);
  const auto saved = Saved(rounds, WORKER, 1, 1);
  ASSERT_TRUE(saved.saved);
  EXPECT_THAT(saved.saved->next_steps, ElementsAre(14, 41));
  EXPECT_EQ(Text(rounds.Complete()), "RESUME 1");
  // As many steps of both, so it would be the same folder.
  rounds.Request(kNow);
  Say(rounds, CheckpointReply::HOLDS, 0, 2, 14);
  const auto again = Say(rounds, CheckpointReply::HOLDS, 1, 2, 41);
  EXPECT_EQ(Text(again), "RESUME 2");
  EXPECT_EQ(again.instead, "there is one of this step already");
}

// Worker 0 holds, worker 1 waits for it in a step, and then the other way round; as two
// groups do where slots close their rounds with different workers.
class TakingTurnsTest : public CheckpointRoundsTest {
 protected:
  TakingTurnsTest() : rounds_(Plan()) { rounds_.Request(kNow); }

  static CheckpointRounds::Plan Plan() {
    CheckpointRounds::Plan plan = Lockstep();
    plan.lockstep = false;
    plan.most_patience = absl::Seconds(1);
    return plan;
  }
  // Orders from now until `until`, each with its time in ms; who holds then says so.
  std::vector<std::string> OrdersUntil(absl::Duration until) {
    std::vector<std::string> orders;
    for (; now_ <= until; now_ += absl::Milliseconds(10)) {
      const auto outcome = rounds_.Tick(now_);
      if (!outcome.order) continue;
      orders.push_back(
          absl::StrCat(absl::ToInt64Milliseconds(now_), ": ", Text(outcome)));
      if (outcome.order->kind() != CheckpointOrder::HOLD) continue;
      round_ = outcome.order->round();
      advance_ = outcome.order->advance();
      ++turn_;
      Say(rounds_, CheckpointReply::HOLDS, static_cast<int>(turn_ % 2), round_, turn_,
          advance_);
    }
    return orders;
  }

  CheckpointRounds rounds_;
  absl::Duration now_ = kNow;
  int64_t round_ = 1;
  int64_t advance_ = 0;
  int64_t turn_ = 0;
};

TEST_F(TakingTurnsTest, AfterAFewOfThemAllGoOnForAWhileAndAreAskedAnew) {
  Say(rounds_, CheckpointReply::HOLDS, 0, 1, 1);
  EXPECT_THAT(OrdersUntil(absl::Milliseconds(3900)),
              ElementsAre("100: HOLD 1 advance 1", "300: HOLD 1 advance 2",
                          "700: HOLD 1 advance 3", "1500: HOLD 1 advance 4",
                          // Never more than the most patience.
                          "2500: RESUME 1", "2600: HOLD 2", "2800: HOLD 2 advance 1",
                          "3200: HOLD 2 advance 2"));
  EXPECT_TRUE(rounds_.under_way());
  // Worker 1 holds before step 7.
  EXPECT_EQ(Text(Say(rounds_, CheckpointReply::HOLDS, 0, 2, 5, 2)), "SAVE 2 at 6");
}

TEST_F(TakingTurnsTest, WhileAllGoOnNobodyHolds) {
  Say(rounds_, CheckpointReply::HOLDS, 0, 1, 1);
  EXPECT_EQ(OrdersUntil(absl::Milliseconds(2500)).back(), "2500: RESUME 1");
  EXPECT_TRUE(rounds_.under_way());
  // Said before it heard of that.
  EXPECT_EQ(Text(Say(rounds_, CheckpointReply::HOLDS, 0, 1, 5, 4)), "-");
  EXPECT_EQ(Text(Say(rounds_, CheckpointReply::HOLDS, 1, 1, 5, 4)), "-");
  const auto ended = Say(rounds_, CheckpointReply::FINISHED, 1, 1, 6);
  EXPECT_EQ(Text(ended), "RESUME 1");
  EXPECT_EQ(ended.instead, "worker 1 has made its last step");
  EXPECT_FALSE(rounds_.under_way());
}

TEST_F(TakingTurnsTest, IsGivenUpInTime) {
  Say(rounds_, CheckpointReply::HOLDS, 0, 1, 1);
  EXPECT_EQ(OrdersUntil(absl::Seconds(20)).back(), "10010: RESUME 3");
  EXPECT_FALSE(rounds_.under_way());
}

TEST_F(CheckpointRoundsTest, EndsWhereAWorkerHasMadeItsLastStep) {
  CheckpointRounds rounds(Lockstep(/*every_steps=*/30));
  rounds.Start();
  rounds.Request(kNow);
  const auto ended = Say(rounds, CheckpointReply::FINISHED, 1, 2, 100);
  EXPECT_EQ(Text(ended), "RESUME 2");
  EXPECT_EQ(ended.instead, "worker 1 has made its last step");
  EXPECT_TRUE(ended.ends);
  const auto asked = rounds.Request(kNow);
  EXPECT_EQ(Text(asked), "-");
  EXPECT_EQ(asked.instead, "a worker has made its last step");
  EXPECT_TRUE(asked.ends);
  // What was only due ends without a word.
  CheckpointRounds due(Lockstep(/*every_steps=*/30));
  due.Start();
  const auto silent = Say(due, CheckpointReply::FINISHED, 0, 1, 100);
  EXPECT_EQ(Text(silent), "RESUME 1");
  EXPECT_EQ(silent.instead, "");
}

// A step that takes very long is no fault of the job.
TEST_F(CheckpointRoundsTest, IsGivenUpWhereNotAllHoldInTimeAndNamesThem) {
  CheckpointRounds rounds(Lockstep());
  rounds.Request(absl::Seconds(5));
  Say(rounds, CheckpointReply::PROMISES, 0, 1, 12);
  Say(rounds, CheckpointReply::HOLDS, 0, 1, 12);
  EXPECT_EQ(Text(rounds.Tick(absl::Seconds(15))), "-");
  const auto given_up = rounds.Tick(absl::Seconds(15.1));
  EXPECT_EQ(Text(given_up), "RESUME 1");
  EXPECT_EQ(given_up.instead,
            "not all workers came to hold within 10s: in a step: worker 1");
  EXPECT_FALSE(given_up.ends);
  EXPECT_FALSE(rounds.under_way());
  // What comes late is of no use; the next request is as any.
  EXPECT_EQ(Text(Say(rounds, CheckpointReply::PROMISES, 1, 1, 13)), "-");
  EXPECT_EQ(Text(Say(rounds, CheckpointReply::HOLDS, 1, 1, 12)), "-");
  EXPECT_EQ(Text(rounds.Request(absl::Seconds(20))), "HOLD 2");
  EXPECT_EQ(Text(rounds.Tick(absl::Seconds(29))), "-");
}

// Due is what nobody can have begun: worker 1 may be in step 30 by now.
TEST_F(CheckpointRoundsTest, AfterOneThatIsGivenUpNoneIsDueWhereSomebodyMayBe) {
  CheckpointRounds rounds(Lockstep(/*every_steps=*/30));
  rounds.Start();
  rounds.Request(kNow);
  // Nobody has heard of it.
  EXPECT_EQ(Text(rounds.Tick(absl::Seconds(11))), "-");
  Say(rounds, CheckpointReply::PROMISES, 0, 2, 30);
  EXPECT_EQ(Text(rounds.Tick(absl::Seconds(12))), "HOLD 3 before 60");
}

TEST_F(CheckpointRoundsTest, ElsewhereItIsGivenUpToo) {
  CheckpointRounds::Plan plan = Lockstep();
  plan.lockstep = false;
  CheckpointRounds rounds(plan);
  rounds.Request(kNow);
  Say(rounds, CheckpointReply::HOLDS, 1, 1, 12);
  const auto given_up = rounds.Tick(absl::Seconds(11));
  EXPECT_EQ(Text(given_up), "RESUME 1");
  EXPECT_THAT(given_up.instead, HasSubstr("in a step: worker 0"));
}

}  // namespace
}  // namespace psring
