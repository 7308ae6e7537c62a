#include "experiments/bench/apply/thread_team.h"

#include <set>
#include <thread>
#include <vector>

#include "common/mutex.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

TEST(ThreadTeamTest, EachThreadWorksOnceInEachOperation) {
  for (const int size : {1, 2, 5}) {
    ThreadTeam team(size);
    EXPECT_EQ(team.size(), size);
    std::vector<int> calls(size);
    for (int operation = 1; operation <= 100; ++operation) {
      // Not atomic: the end of an operation makes everything visible.
      team.Run([&](int thread) { ++calls[thread]; });
      EXPECT_EQ(calls, std::vector<int>(size, operation));
    }
  }
}

// Whoever ran them one after the other would wait here for ever.
TEST(ThreadTeamTest, ThreadsWorkAtTheSameTime) {
  ThreadTeam team(3);
  Mutex mutex;
  CondVar changed;
  int here = 0;
  std::set<std::thread::id> threads;
  team.Run([&](int) {
    MutexLock lock(&mutex);
    ++here;
    threads.insert(std::this_thread::get_id());
    changed.NotifyAll();
    while (here < 3) changed.Wait(&mutex);
  });
  EXPECT_EQ(threads.size(), 3u);
  EXPECT_TRUE(threads.contains(std::this_thread::get_id()));
}

TEST(ThreadTeamTest, ATeamThatHasNotWorkedEnds) { ThreadTeam team(4); }

}  // namespace
}  // namespace psring
