// The emulator by kernels that are right, and by the same with a mistake planted in them,
// each of which must be found.
#include "common/cuda/emulator.h"

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

enum class Mistake {
  kNone,
  kNoBarrier,         // Between what a thread writes and another reads.
  kNoSecondBarrier,   // Before the memory is written again.
  kBarrierOfSome,     // Not all threads come to it.
  kBarriersOfTwo,     // Each branch has one of its own.
  kEndsEarly,         // A thread leaves before a barrier.
  kShuffleOfSome,     // Not all lanes come to it.
  kShuffleBeforeEnd,  // A lane leaves before a shuffle.
  kShufflesOfTwo,     // Lanes shuffle by different numbers.
  kBeyondWarp,        // By 32.
  kUnwritten,         // Reads what nobody has written.
  kOutside,           // Uses an index that there is not.
  kWrongLane,         // Reads from another lane: no rule is broken, the sum is wrong.
  kLostStep,          // The same of the tree's last step.
};

// sums[block] = the sum of values[block * kThreads ...], twice over.
struct SumBlocks {
  static constexpr int kThreads = 96;
  static constexpr int kWarps = kThreads / kWarp;
  template <typename Thread>
  struct Shared {
    typename Thread::template Array<uint64_t, kWarps> warps;
  };

  Mistake mistake = Mistake::kNone;
  const uint32_t* values = nullptr;
  uint64_t* sums = nullptr;

  template <typename Thread>
  void operator()(Thread& thread, Shared<Thread>& shared) const {
    const int me = thread.thread();
    const int warp = me / kWarp;
    for (int round = 0; round < 2; ++round) {
      uint64_t sum = values[thread.block() * kThreads + me];
      if (mistake == Mistake::kShuffleBeforeEnd && me == 40) return;
      for (int step = kWarp / 2; step > 0; step /= 2) {
        if (mistake == Mistake::kLostStep && step == 1) break;
        if (mistake == Mistake::kShuffleOfSome && me == 40) continue;
        int by = step;
        if (mistake == Mistake::kWrongLane && step == 4) by = 5;
        if (mistake == Mistake::kShufflesOfTwo && me == 40) by = 1;
        if (mistake == Mistake::kBeyondWarp) by = 2 * step;
        sum += thread.ShuffleDown(sum, by);
      }
      if (mistake == Mistake::kEndsEarly && me == 70) return;
      const bool writes = mistake != Mistake::kUnwritten || warp != 1;
      const int index = mistake == Mistake::kOutside ? warp + 1 : warp;
      if (thread.lane() == 0 && writes) shared.warps.Set(thread, index, sum);
      if (mistake == Mistake::kBarriersOfTwo) {
        if (me < 50) {
          thread.Barrier();
        } else {
          thread.Barrier();
        }
      } else if (mistake == Mistake::kBarrierOfSome ? me < 50
                                                    : mistake != Mistake::kNoBarrier) {
        thread.Barrier();
      }
      if (me == 0) {
        uint64_t total = 0;
        for (int w = 0; w < kWarps; ++w) total += shared.warps.Get(thread, w);
        sums[thread.block()] = total;
      }
      if (mistake != Mistake::kNoSecondBarrier) thread.Barrier();
    }
  }
};

constexpr int kBlocks = 3;

struct Outcome {
  absl::Status status;
  std::vector<uint64_t> sums = std::vector<uint64_t>(kBlocks);
};

std::vector<uint32_t> Values() {
  std::vector<uint32_t> values(kBlocks * SumBlocks::kThreads);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 7 + i * i % 101;
  return values;
}

std::vector<uint64_t> RightSums() {
  const std::vector<uint32_t> values = Values();
  std::vector<uint64_t> sums;
  for (int block = 0; block < kBlocks; ++block) {
    const auto begin = values.begin() + block * SumBlocks::kThreads;
    sums.push_back(std::accumulate(begin, begin + SumBlocks::kThreads, uint64_t{0}));
  }
  return sums;
}

Outcome SumWith(Mistake mistake, ThreadOrder order) {
  const std::vector<uint32_t> values = Values();
  Outcome outcome;
  outcome.status = Emulate<SumBlocks>({.kernel = {.mistake = mistake,
                                                  .values = values.data(),
                                                  .sums = outcome.sums.data()},
                                       .blocks = kBlocks},
                                      order);
  return outcome;
}

void ExpectFound(Mistake mistake, const std::vector<std::string>& texts) {
  for (const ThreadOrder order : kThreadOrders) {
    const Outcome outcome = SumWith(mistake, order);
    for (const std::string& text : texts) {
      EXPECT_THAT(outcome.status,
                  StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(text)))
          << "order " << static_cast<int>(order);
    }
  }
}

TEST(EmulatorTest, ARightKernelGivesTheSameInEveryOrder) {
  for (const ThreadOrder order : kThreadOrders) {
    const Outcome outcome = SumWith(Mistake::kNone, order);
    EXPECT_OK(outcome.status);
    EXPECT_EQ(outcome.sums, RightSums());
  }
}

TEST(EmulatorTest, NoBlocksRunNothing) {
  EXPECT_OK(Emulate<SumBlocks>({.kernel = {}, .blocks = 0}));
}

TEST(EmulatorTest, AMissingBarrierIsFound) {
  ExpectFound(Mistake::kNoBarrier, {"shared value"});
  // The thread that reads is the first to run: there is nothing to read yet.
  EXPECT_THAT(SumWith(Mistake::kNoBarrier, ThreadOrder::kAscending).status.message(),
              AllOf(HasSubstr("block 0: thread 0 reads shared value 1"),
                    HasSubstr("nobody has written")));
  // It is the last.
  EXPECT_THAT(SumWith(Mistake::kNoBarrier, ThreadOrder::kDescending).status.message(),
              HasSubstr("block 2: thread 0 reads shared value 1, which thread 32 has "
                        "written since the last barrier"));
}

TEST(EmulatorTest, MemoryThatIsWrittenAgainWithoutABarrierIsFound) {
  ExpectFound(Mistake::kNoSecondBarrier, {"since the last barrier"});
}

TEST(EmulatorTest, ABarrierThatSomeThreadsDoNotReachIsFound) {
  ExpectFound(Mistake::kBarrierOfSome, {"waits at the barrier in line"});
  ExpectFound(Mistake::kBarriersOfTwo, {"thread 0 waits at the barrier in line",
                                        "thread 50 waits at the barrier"});
}

TEST(EmulatorTest, AThreadThatEndsBeforeABarrierIsFound) {
  ExpectFound(Mistake::kEndsEarly,
              {"thread 0 waits at the barrier in line", "thread 70 has ended"});
}

TEST(EmulatorTest, AShuffleThatSomeLanesDoNotReachIsFound) {
  ExpectFound(Mistake::kShuffleOfSome, {"thread 32 waits in the shuffle in line",
                                        "thread 40 waits at the barrier"});
  ExpectFound(Mistake::kShuffleBeforeEnd,
              {"thread 32 waits in the shuffle in line", "thread 40 has ended"});
}

TEST(EmulatorTest, AShuffleByDifferentNumbersIsFound) {
  ExpectFound(Mistake::kShufflesOfTwo, {"by 16, thread 40 waits in the shuffle", "by 1"});
  ExpectFound(Mistake::kBeyondWarp, {"shuffles by 32 in line", "beyond its warp"});
}

TEST(EmulatorTest, SharedMemoryThatIsNotThereIsFound) {
  ExpectFound(Mistake::kUnwritten, {"reads shared value 1, which nobody has written"});
  ExpectFound(Mistake::kOutside, {"uses shared value 3 of 3"});
}

// No rule of the machine is broken: what is compared with must find these.
TEST(EmulatorTest, AWrongLaneGivesAWrongSum) {
  for (const Mistake mistake : {Mistake::kWrongLane, Mistake::kLostStep}) {
    for (const ThreadOrder order : kThreadOrders) {
      const Outcome outcome = SumWith(mistake, order);
      EXPECT_OK(outcome.status);
      EXPECT_NE(outcome.sums, RightSums());
    }
  }
}

// Each thread copies from its neighbour in place, which only some orders do right.
struct ShiftInPlace {
  static constexpr int kThreads = 64;
  template <typename Thread>
  using Shared = NothingShared;
  int32_t* values = nullptr;

  template <typename Thread>
  void operator()(Thread& thread, NothingShared&) const {
    values[thread.thread()] = values[thread.thread() + 1];
  }
};

TEST(EmulatorTest, ARaceInGlobalMemoryShowsBetweenOrders) {
  std::vector<std::vector<int32_t>> results;
  for (const ThreadOrder order : kThreadOrders) {
    std::vector<int32_t> values(65);
    std::iota(values.begin(), values.end(), 0);
    ASSERT_OK(Emulate<ShiftInPlace>({.kernel = {values.data()}, .blocks = 1}, order));
    results.push_back(values);
  }
  EXPECT_NE(results[0], results[1]);
  EXPECT_NE(results[0], results[2]);
}

enum class Lanes { kDown, kXor };

// out[thread] = what a lane gets of lanes whose value is their number.
template <typename Value>
struct ShowLanes {
  static constexpr int kThreads = 64;
  template <typename Thread>
  using Shared = NothingShared;
  Lanes lanes = Lanes::kDown;
  int step = 0;
  Value* out = nullptr;

  template <typename Thread>
  void operator()(Thread& thread, NothingShared&) const {
    const auto mine = static_cast<Value>(thread.thread());
    out[thread.thread()] = lanes == Lanes::kDown ? thread.ShuffleDown(mine, step)
                                                 : thread.ShuffleXor(mine, step);
  }
};

template <typename Value>
void ExpectLanes() {
  for (int step = 0; step < kWarp; ++step) {
    for (const Lanes lanes : {Lanes::kDown, Lanes::kXor}) {
      std::vector<Value> out(64);
      ASSERT_OK(
          Emulate<ShowLanes<Value>>({.kernel = {lanes, step, out.data()}, .blocks = 1}));
      for (int t = 0; t < 64; ++t) {
        const int lane = t % kWarp;
        const int there = lane + step < kWarp ? t + step : t;
        EXPECT_EQ(out[t], static_cast<Value>(
                              lanes == Lanes::kDown ? there : t - lane + (lane ^ step)))
            << "thread " << t << ", step " << step;
      }
    }
  }
}

TEST(EmulatorTest, ShufflesTakeFromTheLaneThatTheyName) {
  ExpectLanes<int32_t>();
  ExpectLanes<float>();
  ExpectLanes<double>();
  ExpectLanes<uint64_t>();
}

struct LoadFours {
  static constexpr int kThreads = 32;
  template <typename Thread>
  using Shared = NothingShared;
  const float* from = nullptr;
  float* to = nullptr;

  template <typename Thread>
  void operator()(Thread& thread, NothingShared&) const {
    const int i = 4 * thread.thread();
    thread.Store(to + i, thread.template Load<4>(from + i));
  }
};

TEST(EmulatorTest, FoursThatAreNotAlignedAreFound) {
  alignas(16) float from[132], to[132];
  std::iota(std::begin(from), std::end(from), 1.0f);
  EXPECT_OK(Emulate<LoadFours>({.kernel = {from, to + 4}, .blocks = 1}));
  EXPECT_EQ(to[4], 1.0f);
  EXPECT_EQ(to[131], 128.0f);
  for (const auto& kernel : {LoadFours{from + 1, to}, LoadFours{from, to + 2}}) {
    EXPECT_THAT(Emulate<LoadFours>({.kernel = kernel, .blocks = 1}),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("thread 0 loads or stores 16 bytes at an address")));
  }
}

// Adds one to each element of a grid that is larger than the call.
struct CountVisits {
  static constexpr int kThreads = 64;
  template <typename Thread>
  using Shared = NothingShared;
  uint64_t* visits = nullptr;
  uint64_t* least = nullptr;
  uint64_t* sum = nullptr;

  template <typename Thread>
  void operator()(Thread& thread, NothingShared&) const {
    const int64_t me = thread.block() * thread.threads() + thread.thread();
    for (int64_t i = me; i < 1000; i += thread.blocks() * thread.threads()) {
      thread.AtomicAdd(visits + i, 1);
      thread.AtomicMin(least, 2000 - i);
      thread.AtomicAdd(sum, i);
    }
  }
};

TEST(EmulatorTest, EveryThreadOfEveryBlockRunsOnce) {
  for (const ThreadOrder order : kThreadOrders) {
    std::vector<uint64_t> visits(1000);
    uint64_t least = 5000, sum = 3;
    ASSERT_OK(Emulate<CountVisits>({.kernel = {visits.data(), &least, &sum}, .blocks = 5},
                                   order));
    EXPECT_THAT(visits, Each(1u));
    EXPECT_EQ(least, 1001u);
    EXPECT_EQ(sum, 3u + 1000 * 999 / 2);
  }
}

}  // namespace
}  // namespace psring
