// psring trace and psring export on what psring compare has recorded.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/end_to_end_test_util.h"
#include "tests/subprocess.h"

namespace psring {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;
using testing::UnorderedElementsAre;

class TraceTest : public EndToEndTest {
 protected:
  static std::unique_ptr<Subprocess> Psring(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "experiments/psring");
    auto psring = std::make_unique<Subprocess>(arguments);
    EXPECT_TRUE(psring->Wait(kPatience).has_value());
    return psring;
  }
  // One line on stderr, exit code 2, and nothing else.
  static void Refuses(const std::vector<std::string>& arguments,
                      const std::string& text) {
    const auto psring = Psring(arguments);
    EXPECT_THAT(psring->Wait(kPatience), Optional(2)) << text;
    EXPECT_THAT(psring->err(), HasSubstr(text));
    EXPECT_EQ(psring->out(), "");
  }
};

TEST_F(TraceTest, BothArchitecturesAreInOneFileOneTextAndTables) {
  const auto compare = Start("compare", Config(6));
  ASSERT_THAT(compare->Wait(kPatience), Optional(0)) << compare->err();
  const std::string out = Path("out");

  const auto trace = Psring({"trace", out});
  ASSERT_THAT(trace->Wait(kPatience), Optional(0)) << trace->err();
  EXPECT_THAT(trace->err(), HasSubstr("/out/trace.json"));
  std::ifstream file(Path("out/trace.json"));
  const json events = json::parse(file)["traceEvents"];
  std::map<int, std::string> processes;
  std::map<std::string, int> steps, contributions, buckets;  // By process.
  std::map<std::string, int> arrows;                         // By phase.
  std::set<std::string> names;                               // Of buckets.
  for (const json& event : events) {
    const std::string kind = event["ph"];
    const std::string name = event["name"];
    if (name == "process_name") processes[event["pid"]] = event["args"]["name"];
    if (kind != "X") {
      if (kind != "M") ++arrows[kind];
      continue;
    }
    const std::string& process = processes[event["pid"]];
    if (name.rfind("step ", 0) == 0) ++steps[process];
    if (name.rfind("apply slot ", 0) == 0) ++contributions[process];
    if (name.rfind("bucket ", 0) == 0) {
      ++buckets[process];
      names.insert(name);
    }
  }
  // Two slots in each of two buckets, one on each server.
  EXPECT_THAT(steps, UnorderedElementsAre(std::pair("servers / worker 0", 6),
                                          std::pair("servers / worker 1", 6),
                                          std::pair("ring / worker 0", 6),
                                          std::pair("ring / worker 1", 6)));
  EXPECT_THAT(contributions, UnorderedElementsAre(std::pair("servers / server 0", 24),
                                                  std::pair("servers / server 1", 24)));
  EXPECT_EQ(buckets["servers / worker 0"], 12);
  EXPECT_THAT(names,
              ElementsAre("bucket 0: tensors layer0.bias, layer1.weight and layer1.bias",
                          "bucket 1: tensor layer0.weight"));
  EXPECT_EQ(arrows["s"], arrows["f"]);
  EXPECT_GT(arrows["s"], 0);

  const auto path = Psring({"trace", out + "/run.db", "--bucket", "1", "--step", "3"});
  ASSERT_THAT(path->Wait(kPatience), Optional(0)) << path->err();
  EXPECT_EQ(path->err(), "");
  EXPECT_THAT(path->out(), AllOf(HasSubstr("servers: bucket 1: tensor layer0.weight"),
                                 HasSubstr("last applied: slot "),
                                 HasSubstr("ring: bucket 1: tensor layer0.weight"),
                                 HasSubstr("last back: worker ")));

  const auto exported = Psring({"export", out, "--csv", Path("csv")});
  ASSERT_THAT(exported->Wait(kPatience), Optional(0)) << exported->err();
  std::ifstream table(Path("csv/steps.csv"));
  const std::string csv{std::istreambuf_iterator<char>(table), {}};
  const std::vector<std::string> lines = absl::StrSplit(csv, '\n');
  // A header and what follows the last line break.
  EXPECT_EQ(static_cast<double>(lines.size()),
            QueryOne("SELECT count(*) FROM steps") + 2);
  EXPECT_EQ(lines[0].rfind("run,rank,step,samples,loss,", 0), 0);

  Refuses({"export", out, "--csv", Path("csv")}, "it is not empty; allowed: a new");
  Refuses({"export", Path("nowhere"), "--csv", Path("c")}, "there is no such run folder");
  Refuses({"trace", out, "--arm", "tree"}, "there are: servers with seed 1, ring with");
  Refuses({"trace", out, "--steps", "6-9"}, "no steps 6 to 9; recorded: steps 0 to 5");
  Refuses({"trace", out, "--steps", "three"}, "is no range of steps");
  Refuses({"trace", out, "--bucket", "2", "--step", "3"}, "there are buckets 0 to 1");
  Refuses({"trace", out, "--bucket", "1", "--step", "6"}, "recorded: steps 0 to 5");
  Refuses({"trace", out, "--bucket", "1"}, "--step");
  Refuses({"trace", out, "--step", "1"}, "--bucket");
  Refuses({"trace", out, "--bucket", "-1", "--step", "1"}, "--bucket");
}

}  // namespace
}  // namespace psring
