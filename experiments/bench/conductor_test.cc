#include "experiments/bench/conductor.h"

#include <sys/stat.h>

#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "experiments/bench/channel.h"
#include "experiments/bench/socket_folder_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ConductorTest : public SocketFolderTest {
 protected:
  // A contestant whose rank R runs the script with $0 the control socket and $1 R.
  ContestantPlan Plan(int ranks, const std::string& script) const {
    ContestantPlan plan;
    plan.name = "fake";
    plan.control = absl::StrCat(folder_, "/socket");
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string name = absl::StrCat("fake, rank ", rank);
      plan.processes.push_back(
          {.name = name,
           .arguments = {"/bin/sh", "-c", script, plan.control, absl::StrCat(rank)},
           .log = absl::StrCat(folder_, "/", rank, ".log")});
    }
    return plan;
  }
};

TEST_F(ConductorTest, ARankThatEndsBeforeItReportsIsNamedWithItsLog) {
  Conductor conductor(2);
  const ContestantPlan plan = Plan(2, "[ $1 = 1 ] && exit 3; exec tail -f /dev/null");
  EXPECT_THAT(conductor.Start(plan).status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("fake, rank 1 ended with exit code 3; its log: "),
                             HasSubstr(plan.processes[1].log))));
}

TEST_F(ConductorTest, ARankThatConnectsAndSaysNothingIsMissedInTime) {
  const std::string started = absl::StrCat(folder_, "/started");
  ASSERT_EQ(mkfifo(started.c_str(), 0600), 0);
  const ContestantPlan plan =
      Plan(1, absl::StrCat("echo > ", started, "; exec tail -f /dev/null"));
  absl::StatusOr<BenchChannel> silent = absl::UnknownError("never connected");
  std::thread rank([&] {
    std::string line;
    std::ifstream fifo(started);
    std::getline(fifo, line);  // By now the conductor listens.
    silent = BenchChannel::Connect(plan.control);
  });
  Conductor conductor(1, absl::Seconds(1));
  const absl::Status status = conductor.Start(plan).status();
  rank.join();
  EXPECT_OK(silent.status());
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDeadlineExceeded,
                               HasSubstr("0 of 1 ranks reported within 1s; missing: 0")));
}

TEST_F(ConductorTest, AProgramThatIsNotThereIsNamed) {
  Conductor conductor(1);
  ContestantPlan plan = Plan(1, "");
  plan.processes[0].arguments[0] = "/no/such/program";
  EXPECT_THAT(conductor.Start(plan).status(),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("cannot start fake, rank 0: /no/such/program")));
}

}  // namespace
}  // namespace psring
