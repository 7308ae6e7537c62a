// psring explain as a user runs it.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/subprocess.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::Optional;

constexpr absl::Duration kPatience = absl::Minutes(2);

std::unique_ptr<Subprocess> Explain(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"experiments/psring", "explain"});
  return std::make_unique<Subprocess>(arguments);
}

std::string TextOf(const std::vector<std::string>& arguments) {
  const auto explain = Explain(arguments);
  EXPECT_THAT(explain->Wait(kPatience), Optional(0)) << explain->err();
  EXPECT_EQ(explain->err(), "");
  for (const auto line : absl::StrSplit(explain->out(), '\n')) {
    EXPECT_LE(line.size(), 80) << line;
  }
  return explain->out();
}

TEST(ExplainTest, ARingShowsPartialSumsChunksAndEvenLinks) {
  EXPECT_THAT(
      TextOf({"ring", "--ranks", "4", "--elements", "12"}),
      AllOf(HasSubstr("Step 6 of 6"),
            HasSubstr("rank 2 -> rank 3      0      0-2     110 220 330  1110 2220 3330"),
            HasSubstr("rank 0 has 0-2, rank 1 has 3-5, rank 2\n  has 6-8, rank 3 has"),
            HasSubstr("rank 1: 72/72, rank 2: 72/72,\n  rank 3: 72/72"),
            HasSubstr("Every rank has every sum"),
            HasSubstr("Busiest: everyone alike, with 72 bytes")));
}

TEST(ExplainTest, GatherBroadcastShowsTheHotLink) {
  EXPECT_THAT(
      TextOf({"gather_broadcast", "--ranks", "4", "--elements", "12"}),
      AllOf(HasSubstr("rank 3 -> rank 0    all     0-11  1000 2000 .. 3000"),
            HasSubstr("Finished sums: rank 0 has 0-11."),
            HasSubstr("rank 0: 144/144, rank 1: 48/48"),
            HasSubstr("Busiest: rank 0, with 144 bytes"), HasSubstr("factor: 2.00")));
}

TEST(ExplainTest, OneServerShowsTheHotLink) {
  EXPECT_THAT(
      TextOf({"parameter_server", "--ranks", "4", "--elements", "12"}),
      AllOf(
          HasSubstr("worker 2 -> server    all     0-11     100 200 .. 300        held"),
          HasSubstr("server -> worker 3    all     0-11  -1111 -2222 .. -3333"),
          HasSubstr("The answers came in the order of workers "),
          Not(HasSubstr("acknowledged")), HasSubstr("server: 192/192"),
          HasSubstr("Busiest: server, with 192 bytes"), HasSubstr("factor: 4.00")));
}

TEST(ExplainTest, AnyCountReadsRight) {
  const std::string ring = TextOf({"ring", "--ranks", "2", "--elements", "1"});
  EXPECT_THAT(ring, AllOf(HasSubstr("2 ranks, 1 element, over TCP"),
                          HasSubstr("what ranks 0 and 1"), Not(HasSubstr("rank 2")),
                          Not(HasSubstr("  all  "))));
}

TEST(ExplainTest, EverySubjectWorksForEverySize) {
  for (const char* subject :
       {"ring", "halving_doubling", "tree", "gather_broadcast", "parameter_server"}) {
    for (const char* ranks : {"2", "3", "7"}) {
      for (const char* elements : {"1", "5", "10000"}) {
        SCOPED_TRACE(testing::Message() << subject << ", " << ranks << ", " << elements);
        EXPECT_THAT(TextOf({subject, "--ranks", ranks, "--elements", elements}),
                    HasSubstr("Every "));
      }
    }
  }
}

TEST(ExplainTest, WrongUsageSaysWhatIsAllowed) {
  const auto unknown = Explain({"carrier_pigeon"});
  EXPECT_THAT(unknown->Wait(kPatience), Optional(2));
  EXPECT_THAT(unknown->err(), HasSubstr("gather_broadcast"));
  const auto many = Explain({"ring", "--ranks", "8"});
  EXPECT_THAT(many->Wait(kPatience), Optional(2));
  EXPECT_THAT(many->err(), HasSubstr("2 to 7"));
}

}  // namespace
}  // namespace psring
