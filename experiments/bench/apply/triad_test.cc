#include "experiments/bench/apply/triad.h"

#include "experiments/bench/apply/thread_team.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

TEST(TriadTest, AnOperationIsItsPartAndAllOfIt) {
  for (const int threads : {1, 3}) {
    ThreadTeam team(threads);
    Triad triad(/*count=*/1001, /*operations=*/3, &team);
    for (int operation = 0; operation < 3; ++operation) {
      EXPECT_EQ(triad.CountWrong(operation), 1001) << "before it has run";
    }
    triad.Run(1);
    EXPECT_EQ(triad.CountWrong(0), 1001);
    EXPECT_EQ(triad.CountWrong(1), 0);
    EXPECT_EQ(triad.CountWrong(2), 1001);
    triad.Run(2);
    triad.Run(0);
    EXPECT_EQ(triad.CountWrong(0), 0);
    EXPECT_EQ(triad.CountWrong(2), 0);
  }
}

}  // namespace
}  // namespace psring
