#include "experiments/waits.h"

#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace psring {
namespace {

constexpr int64_t kFinish = 1000;

// Finish takes from 1000 to `end`, and what it is exposed for is all of it.
Causes Cut(int64_t end, const std::vector<BucketWait>& buckets) {
  const TimeSpan all = {.begin_ns = kFinish, .end_ns = end};
  const Causes causes = CutByCause({&all, 1}, buckets);
  EXPECT_EQ(causes.total_ns(), end - kFinish);
  return causes;
}

TEST(WaitsTest, ASlowLinkIsNobodysFault) {
  const Causes causes = Cut(1500, {{.begun_ns = 900, .done_ns = 1500}});
  EXPECT_EQ(causes.on_wire_ns, 500);
  EXPECT_EQ(causes.waited_for, std::nullopt);
}

TEST(WaitsTest, UntilTheLastWorkerHasLaunchedItIsLate) {
  const Causes causes = Cut(
      1500,
      {{.begun_ns = 900, .awaited_until_ns = 1400, .awaited_rank = 3, .done_ns = 1500}});
  EXPECT_EQ(causes.peer_late_ns, 400);
  EXPECT_EQ(causes.on_wire_ns, 100);
  EXPECT_EQ(causes.waited_for, 3);
}

// That this worker was the last, or another was late only while it computed itself.
TEST(WaitsTest, WhoIsLateBeforeFinishIsNotExposed) {
  const Causes causes = Cut(
      1500,
      {{.begun_ns = 900, .awaited_until_ns = 1000, .awaited_rank = 3, .done_ns = 1500}});
  EXPECT_EQ(causes.on_wire_ns, 500);
  EXPECT_EQ(causes.waited_for, std::nullopt);
}

// 900 to 1500 it moves, a third of that working; so does a third of what is exposed.
TEST(WaitsTest, WorkingIsSpreadOverAllTheTimeThatABucketMoves) {
  const Causes causes =
      Cut(1500, {{.begun_ns = 900, .done_ns = 1500, .working_ns = 200}});
  EXPECT_EQ(causes.working_ns, 166);
  EXPECT_EQ(causes.on_wire_ns, 334);
}

TEST(WaitsTest, WorkingIsNoMoreThanTheTimeThatABucketMoves) {
  const Causes causes = Cut(
      1500,
      {{.begun_ns = 900, .awaited_until_ns = 1400, .done_ns = 1500, .working_ns = 250}});
  EXPECT_EQ(causes.working_ns, 100);
  EXPECT_EQ(causes.peer_late_ns, 400);
}

// Bucket 0 moves while bucket 1 is awaited, and the other way round.
TEST(WaitsTest, WhileAnyBucketMovesNobodyIsLate) {
  const BucketWait moves = {.begun_ns = 900, .done_ns = 1500};
  const BucketWait awaited = {
      .begun_ns = 950, .awaited_until_ns = 1600, .awaited_rank = 1, .done_ns = 1700};
  for (const auto& buckets : {std::vector{moves, awaited}, std::vector{awaited, moves}}) {
    const Causes causes = Cut(1700, buckets);
    EXPECT_EQ(causes.on_wire_ns, 600);
    EXPECT_EQ(causes.peer_late_ns, 100);
    EXPECT_EQ(causes.waited_for, 1);
  }
}

TEST(WaitsTest, ToBlameIsWhoTheNextBucketAwaitsAndOfSeveralWhoForLongest) {
  const std::vector<BucketWait> buckets = {
      {.begun_ns = 900, .awaited_until_ns = 1200, .awaited_rank = 1, .done_ns = 1300},
      {.begun_ns = 900, .awaited_until_ns = 1550, .awaited_rank = 2, .done_ns = 1600}};
  const Causes causes = Cut(1600, buckets);
  EXPECT_EQ(causes.peer_late_ns, 200 + 250);  // Worker 1 until 1200, 2 from 1300.
  EXPECT_EQ(causes.waited_for, 2);
  EXPECT_EQ(Cut(1400, buckets).waited_for, 1);
}

TEST(WaitsTest, WhereNothingHasBegunThisWorkerIsNotReady) {
  const Causes causes = Cut(
      1500,
      {{.begun_ns = 500, .done_ns = 1100},
       {.begun_ns = 1300, .awaited_until_ns = 1350, .awaited_rank = 1, .done_ns = 1500}});
  EXPECT_EQ(causes.not_ready_ns, 200);
  EXPECT_EQ(causes.peer_late_ns, 50);
  EXPECT_EQ(causes.on_wire_ns, 250);
}

TEST(WaitsTest, WhereNothingIsLeftThisWorkerIsWorking) {
  EXPECT_EQ(Cut(1500, {{.begun_ns = 500, .done_ns = 1400}}).working_ns, 100);
  EXPECT_EQ(Cut(1500, {}).working_ns, 500);
}

// Whatever there is, in whatever order, even of clocks that contradict each other.
TEST(WaitsTest, TheCausesAddUpToExposedTime) {
  std::mt19937 random(1);
  for (int round = 0; round < 1000; ++round) {
    const auto time = [&] { return static_cast<int64_t>(random() % 1000); };
    std::vector<BucketWait> buckets(random() % 5);
    for (BucketWait& bucket : buckets) {
      bucket = {.begun_ns = time(),
                .awaited_until_ns = time(),
                .awaited_rank = static_cast<int>(random() % 3),
                .done_ns = time(),
                .working_ns = time()};
    }
    std::vector<TimeSpan> exposed;
    int64_t total = 0;
    for (int64_t at = time(); at < 1000; at += time()) {
      exposed.push_back({.begin_ns = at, .end_ns = at + time() / 4});
      at = exposed.back().end_ns;
      total += exposed.back().end_ns - exposed.back().begin_ns;
    }
    const Causes causes = CutByCause(exposed, buckets);
    ASSERT_EQ(causes.total_ns(), total);
    ASSERT_EQ(causes.waited_for.has_value(), causes.peer_late_ns > 0);
    ASSERT_GE(std::min({causes.not_ready_ns, causes.peer_late_ns, causes.on_wire_ns,
                        causes.working_ns}),
              0);
  }
}

// Backward ends, and Finish begins, at 1000.
StepRecord MakeStep(int64_t exposed_ns, int64_t optimizer_ns,
                    const std::vector<int64_t>& done_ns) {
  StepRecord step;
  step.set_start_ns(500);
  step.set_recording_ns(10);
  step.set_data_ns(90);
  step.set_forward_ns(100);
  step.set_backward_ns(300);
  step.set_exposed_ns(exposed_ns);
  step.set_optimizer_ns(optimizer_ns);
  for (const int64_t done : done_ns) {
    BucketTimes& times = *step.add_buckets();
    times.set_ready_ns(800);
    times.set_launched_ns(900);
    times.set_done_ns(done);
  }
  return step;
}

std::vector<std::pair<int64_t, int64_t>> Pairs(const std::vector<TimeSpan>& spans) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (const TimeSpan& span : spans) pairs.emplace_back(span.begin_ns, span.end_ns);
  return pairs;
}

using Spans = std::vector<std::pair<int64_t, int64_t>>;

TEST(WaitsTest, FinishBeginsWhereBackwardEnds) {
  EXPECT_EQ(BackwardBegin(MakeStep(0, 0, {})), 700);
  EXPECT_EQ(FinishBegin(MakeStep(0, 0, {})), 1000);
}

TEST(WaitsTest, WithoutAnOptimizerAllOfFinishIsExposed) {
  const std::vector<int64_t> bytes = {10, 30};
  EXPECT_EQ(Pairs(ExposedSpans(MakeStep(400, 0, {1100, 1200}), bytes)),
            (Spans{{1000, 1400}}));
  EXPECT_EQ(Pairs(ExposedSpans(MakeStep(0, 0, {1100, 1200}), bytes)), Spans{});
}

// The optimizer takes 25 on bucket 0 and 75 on bucket 1.
TEST(WaitsTest, TheOptimizerTakesBucketsWhenTheyAreDone) {
  const std::vector<int64_t> bytes = {10, 30};
  EXPECT_EQ(Pairs(ExposedSpans(MakeStep(300, 100, {1100, 1300}), bytes)),
            (Spans{{1000, 1100}, {1125, 1300}, {1375, 1400}}));
  // While the optimizer is at the one before.
  EXPECT_EQ(Pairs(ExposedSpans(MakeStep(300, 100, {1001, 1010}), bytes)),
            (Spans{{1000, 1001}, {1101, 1400}}));
  // Done before Finish, and updated then.
  EXPECT_EQ(Pairs(ExposedSpans(MakeStep(300, 100, {950, 1010}), bytes)),
            (Spans{{1000, 1010}, {1110, 1400}}));
  EXPECT_EQ(Pairs(ExposedSpans(MakeStep(300, 100, {950, 960}), bytes)),
            (Spans{{1100, 1400}}));
  // It has to be through at the end of Finish.
  EXPECT_EQ(Pairs(ExposedSpans(MakeStep(300, 100, {1100, 1380}), bytes)),
            (Spans{{1000, 1100}, {1125, 1325}}));
  EXPECT_EQ(Pairs(ExposedSpans(MakeStep(300, 100, {1500, 1500}), bytes)),
            (Spans{{1000, 1300}}));
}

// Worker 1 launches at 950 on its own clock, which is 200 behind worker 0's.
TEST(WaitsTest, ABucketAwaitsTheLastWorkerToLaunchIt) {
  AlignedClocks clocks;
  ClockRecord ahead;
  ahead.set_offset_ns(200);
  clocks.Add(1, ahead);
  std::vector<StepRecord> records = {MakeStep(500, 0, {1500}), MakeStep(0, 0, {1300}),
                                     MakeStep(500, 0, {1500})};
  records[0].mutable_buckets(0)->set_working_ns(7);
  records[1].mutable_buckets(0)->set_launched_ns(950);
  const std::vector<const StepRecord*> steps = {&records[0], &records[1], &records[2]};
  const auto first = WaitsOf(0, steps, /*awaits_all=*/true, clocks);
  ASSERT_EQ(first.size(), 1);
  EXPECT_EQ(first[0].begun_ns, 900);
  EXPECT_EQ(first[0].awaited_until_ns, 1150);
  EXPECT_EQ(first[0].awaited_rank, 1);
  EXPECT_EQ(first[0].done_ns, 1500);
  EXPECT_EQ(first[0].working_ns, 7);
  // The late one itself awaits nobody: the others have launched at 700 on its clock.
  EXPECT_LT(WaitsOf(1, steps, true, clocks)[0].awaited_until_ns, 950);
  // Nobody is awaited longer than until it is done.
  records[1].mutable_buckets(0)->set_launched_ns(2000);
  EXPECT_EQ(WaitsOf(0, steps, true, clocks)[0].awaited_until_ns, 1500);
  EXPECT_LT(WaitsOf(0, std::vector<const StepRecord*>{&records[0], nullptr, nullptr},
                    true, clocks)[0]
                .awaited_until_ns,
            900);
}

TEST(WaitsTest, ABucketThatIsFullAfterItsLaunchBeginsThen) {
  StepRecord step = MakeStep(500, 0, {1500});
  step.mutable_buckets(0)->set_ready_ns(1200);
  const std::vector<const StepRecord*> steps = {&step};
  EXPECT_EQ(WaitsOf(0, steps, true, {})[0].begun_ns, 1200);
}

// What the others launch does not matter, but what servers say.
TEST(WaitsTest, WhereNotAllAreAwaitedItIsTheServersWord) {
  StepRecord own = MakeStep(500, 0, {1100, 1500});
  StepRecord other = MakeStep(500, 0, {1500, 1500});
  other.mutable_buckets(1)->set_launched_ns(1490);
  const std::vector<const StepRecord*> steps = {&own, &other};
  EXPECT_EQ(Cut(1500, WaitsOf(0, steps, false, {})).on_wire_ns, 500);
  own.set_peer_late_ns(300);
  own.set_waited_for(1);
  const Causes causes = Cut(1500, WaitsOf(0, steps, false, {}));
  EXPECT_EQ(causes.peer_late_ns, 300);
  EXPECT_EQ(causes.on_wire_ns, 200);
  EXPECT_EQ(causes.waited_for, 1);
}

}  // namespace
}  // namespace psring
