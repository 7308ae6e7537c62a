#include "experiments/bench/push_pull/contestants.h"

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

TEST(ContestantsTest, EachHasServersAndWorkersOfItsOwn) {
  PushPullJob job;
  job.set_workers(2);
  job.set_servers(1);
  job.set_slot_bytes(4096);
  const auto all = PlanPushPullProcesses({"tcp", "psring"}, job, "program", "/folder");
  ASSERT_EQ(all.size(), 2);
  EXPECT_EQ(all[0].name, "tcp");
  EXPECT_EQ(all[1].control, "/folder/psring.socket");
  std::vector<std::string> names;
  for (const auto& process : all[1].processes) names.push_back(process.name);
  EXPECT_THAT(names, testing::ElementsAre("psring, server 0", "psring, worker 0",
                                          "psring, worker 1"));
  const auto& last = all[1].processes[2];
  EXPECT_EQ(last.log, "/folder/psring-worker-1.log");
  EXPECT_EQ(absl::StrJoin(last.arguments, " "),
            "program --control /folder/psring.socket --contestant psring --rank 2 --job "
            "workers: 2 servers: 1 slot_bytes: 4096");
}

}  // namespace
}  // namespace psring
