#include "experiments/bench/step/pytorch.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "common/errors.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// The shell takes the place of Python, and a few lines that of PyTorch.
class PytorchTest : public testing::Test {
 protected:
  PytorchTest()
      : folder_(testing::TempDir() + "/" +
                testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::create_directories(folder_);
  }

  // A program that gives its version, and else does `run`, where $2 is the rank and
  // $result the file.
  Pytorch::Programs Programs(const std::string& run) const {
    const std::string path = folder_ + "/rank";
    std::ofstream(path) << "if [ \"$1\" = --version ]; then\n"
                           "echo a warning; echo 2.0, blas; exit 0\n"
                           "fi\n"
                           "for result; do :; done\n"
                        << run << "\n";
    return {.python = "/bin/sh", .rank = path, .folder = folder_};
  }

  absl::StatusOr<std::vector<RankSteps>> Run(const std::string& run) {
    auto found = Pytorch::Find(Programs(run), &children_);
    if (!found.ok()) return found.status();
    return found->Run(StepBenchOptions(), {"pytorch", "ddp", "tcp", 2, 1024}, "/data", 0);
  }

  const std::string folder_;
  ChildProcesses children_;
};

TEST_F(PytorchTest, TheVersionIsTheLastLineOfTheAnswer) {
  ASSERT_OK_AND_ASSIGN(const Pytorch found, Pytorch::Find(Programs(""), &children_));
  EXPECT_EQ(found.version(), "2.0, blas");
}

TEST_F(PytorchTest, IsSkippedWithTheReasonWhereThereIsNoPython) {
  const absl::Status status =
      Pytorch::Find({.python = "/nowhere/python3", .rank = "", .folder = folder_},
                    &children_)
          .status();
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kSkipped);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                               "--against pytorch: there is no /nowhere/python3; install "
                               "python3-torch and libopenblas0-pthread"));
}

TEST_F(PytorchTest, IsSkippedWithTheReasonOfItsProgram) {
  std::ofstream(folder_ + "/rank") << "echo no PyTorch here >&2; exit 1\n";
  const absl::Status status =
      Pytorch::Find({.python = "/bin/sh", .rank = folder_ + "/rank", .folder = folder_},
                    &children_)
          .status();
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kSkipped);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                               "--against pytorch: no PyTorch here"));
  EXPECT_FALSE(children_.running());
}

TEST_F(PytorchTest, StepsComeByRank) {
  ASSERT_OK_AND_ASSIGN(
      const std::vector<RankSteps> ranks,
      Run("echo '{\"steps\": [[9, 1, 2, 3]], \"losses\": ['$2.5'], \"digest\": 7}' > "
          "$result"));
  ASSERT_EQ(ranks.size(), 2);
  ASSERT_EQ(ranks[1].steps.size(), 1);
  EXPECT_EQ(ranks[1].steps[0].total_ns, 9);
  EXPECT_EQ(ranks[1].steps[0].forward_ns, 1);
  EXPECT_EQ(ranks[1].steps[0].backward_ns, 2);
  EXPECT_EQ(ranks[1].steps[0].exposed_ns, std::nullopt);
  EXPECT_EQ(ranks[1].steps[0].optimizer_ns, 3);
  EXPECT_THAT(ranks[0].losses, ElementsAre(0.5));
  EXPECT_THAT(ranks[1].losses, ElementsAre(1.5));
}

TEST_F(PytorchTest, RanksThatPartAreACheckThatFails) {
  const absl::Status status =
      Run("echo '{\"steps\": [], \"losses\": [], \"digest\": '$2'}' > $result").status();
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kCheckFailed);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss,
                               "pytorch-ddp-tcp-1024: rank 1 has ended with other "
                               "parameters than rank 0"));
}

// Rank 0 would wait for ever.
TEST_F(PytorchTest, ARankThatFailsEndsTheOthersAndIsNamedWithItsLog) {
  const absl::Status status =
      Run("if [ $2 = 0 ]; then exec sleep infinity; fi; exit 5").status();
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("pytorch-ddp-tcp-1024, rank 1 ended with exit "
                                       "code 5; its log: "),
                             HasSubstr("/pytorch-ddp-tcp-1024-rank-1.log"))));
  while (children_.running()) children_.Wait(absl::InfiniteDuration());
}

TEST_F(PytorchTest, AResultThatCannotBeReadIsAnError) {
  for (const char* result :
       {"", "{}", "{\"steps\": [[1, 2]], \"losses\": [1], \"digest\": 7}",
        "{\"steps\": [[1, 2, 3, 4]], \"losses\": [], \"digest\": 7}"}) {
    EXPECT_THAT(Run(std::string("echo '") + result + "' > $result").status(),
                StatusIs(absl::StatusCode::kInternal, HasSubstr("-rank-0.json: ")));
  }
}

}  // namespace
}  // namespace psring
