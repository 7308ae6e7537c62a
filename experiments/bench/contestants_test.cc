#include "experiments/bench/contestants.h"

#include "absl/strings/str_join.h"
#include "common/errors.h"
#include "common/status_matchers.h"
#include "experiments/ring_config.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Programs that are there, whatever they do.
const BenchPrograms kPrograms = {
    .rank = "rank", .gloo = "/bin/sh", .open_mpi = "/bin/sh", .mpirun = "/bin/sh"};

absl::StatusOr<std::vector<ContestantPlan>> Plan(const BenchOptions& options,
                                                 const BenchPrograms& programs) {
  return PlanContestants(options, /*most_bytes=*/4096, programs, "/folder");
}

std::vector<std::string> NamesOf(const std::vector<ContestantPlan>& plans) {
  std::vector<std::string> names;
  for (const ContestantPlan& plan : plans) names.push_back(plan.name);
  return names;
}

TEST(ContestantsTest, PsringsComeFirstThenRawThenPeers) {
  BenchOptions options;
  options.transports = {"shared_memory", "tcp"};
  options.algorithms = {"tree", "ring"};
  options.against = {"openmpi", "gloo"};
  ASSERT_OK_AND_ASSIGN(const auto plans, Plan(options, kPrograms));
  EXPECT_THAT(
      NamesOf(plans),
      ElementsAre("psring ring shared_memory", "psring tree tcp", "psring ring tcp",
                  "raw ring tcp", "gloo ring tcp", "gloo ring_chunked tcp",
                  "gloo halving_doubling tcp", "gloo bcube tcp",
                  "openmpi default shared_memory", "openmpi default tcp"));
}

TEST(ContestantsTest, ARankKnowsWhoItIsAndHowItSums) {
  BenchOptions options;
  options.ranks = 3;
  options.connections = 2;
  options.spin = true;
  ASSERT_OK_AND_ASSIGN(const auto plans, Plan(options, kPrograms));
  ASSERT_EQ(plans[0].processes.size(), 3);
  const ContestantPlan::Process& last = plans[0].processes[2];
  EXPECT_EQ(last.name, "psring ring tcp, rank 2");
  EXPECT_EQ(last.log, "/folder/psring-ring-tcp-rank-2.log");
  EXPECT_EQ(absl::StrJoin(last.arguments, " "),
            "rank --control /folder/1.socket --rank 2 --ranks 3 --ring connections: 2 "
            "spin: true --most-count 1024");
}

TEST(ContestantsTest, AutoHasTheRowsThatAnArmWouldHave) {
  BenchOptions options;
  options.ranks = 4;
  options.algorithms = {"auto"};
  options.transports = {"shared_memory", "grpc"};
  ASSERT_OK_AND_ASSIGN(const auto plans, Plan(options, kPrograms));
  EXPECT_THAT(NamesOf(plans),
              ElementsAre("psring ring shared_memory", "psring auto grpc"));
  RingMode expected;
  expected.set_transport(RingMode::GRPC);
  expected.set_algorithm(RingMode::AUTO);
  FillRingDefaults(4, &expected);
  RingMode settings;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      plans[1].processes[0].arguments[8], &settings));
  EXPECT_EQ(settings.SerializeAsString(), expected.SerializeAsString());
  EXPECT_FALSE(settings.choices().empty());
}

TEST(ContestantsTest, MpirunStartsAllRanks) {
  BenchOptions options;
  options.ranks = 4;
  options.against = {"openmpi"};
  ASSERT_OK_AND_ASSIGN(const auto plans, Plan(options, kPrograms));
  ASSERT_EQ(plans.back().processes.size(), 1);
  EXPECT_THAT(absl::StrJoin(plans.back().processes[0].arguments, " "),
              testing::AllOf(HasSubstr("-np 4 "), HasSubstr("--mca btl tcp,self"),
                             HasSubstr("/bin/sh --control /folder/3.socket")));
}

TEST(ContestantsTest, APeerThatWasNotBuiltNamesItsPackages) {
  for (const auto& [peer, package] :
       {std::pair{"gloo", "libgloo-dev"}, {"openmpi", "libopenmpi-dev"}}) {
    BenchOptions options;
    options.against = {peer};
    const absl::Status status =
        Plan(options, {.rank = "rank", .gloo = "/no", .open_mpi = "/no"}).status();
    EXPECT_THAT(status,
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(package)));
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kSkipped);
  }
}

}  // namespace
}  // namespace psring
