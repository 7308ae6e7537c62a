#include "tests/end_to_end_test_util.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiments/sqlite.h"
#include "nlohmann/json.hpp"

namespace psring {
namespace {

namespace fs = std::filesystem;

constexpr char kConfig[] = R"(
name: "end_to_end"
model { mlp { hidden: [16] } }
data { fashion_mnist {} }
training {
  steps: %d
  global_batch: 60
  optimizer { sgd { learning_rate: 0.1 momentum: 0.9 } }
  seed: 1
  evaluation_interval: 5
  target_accuracy: 0.2
  digest_interval: 1
}
cluster { workers: 2 servers: 2 }
buckets { cap_bytes: 20000 first_cap_bytes: 1000 }
arms { name: "servers" parameter_server {} }
arms { name: "ring" ring {} }
)";

}  // namespace

void EndToEndTest::SetUp() {
  std::string pattern = absl::StrCat(testing::TempDir(), "/end_to_end_XXXXXX");
  ASSERT_NE(mkdtemp(pattern.data()), nullptr);
  folder_ = pattern;
}

void EndToEndTest::TearDown() { fs::remove_all(folder_); }

std::string EndToEndTest::Path(const std::string& name) const {
  return absl::StrCat(folder_, "/", name);
}

std::string EndToEndTest::Write(const std::string& name, const std::string& text) const {
  std::ofstream(Path(name)) << text;
  return Path(name);
}

std::string EndToEndTest::Config(int steps) const {
  return Write("config.textproto", absl::StrFormat(kConfig, steps));
}

std::unique_ptr<Subprocess> EndToEndTest::Start(const std::string& command,
                                                const std::string& config,
                                                const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"experiments/psring", command, config, "--out",
                                        Path("out")};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return std::make_unique<Subprocess>(arguments);
}

nlohmann::json EndToEndTest::Summary() const {
  std::ifstream file(Path("out/summary.json"));
  return nlohmann::json::parse(file);
}

std::vector<double> EndToEndTest::Query(const std::string& sql) const {
  const auto connection = SqliteConnection::OpenReadOnly(Path("out/run.db"));
  if (!connection.ok()) return {};
  auto statement = (*connection)->Prepare(sql);
  if (!statement.ok()) return {};
  std::vector<double> cells;
  while (true) {
    const auto more = statement->Next();
    if (!more.ok() || !*more) return cells;
    cells.push_back(statement->Real(0));
  }
}

double EndToEndTest::QueryOne(const std::string& sql) const {
  const std::vector<double> cells = Query(sql);
  EXPECT_EQ(cells.size(), 1) << sql;
  return cells.size() == 1 ? cells[0] : 0;
}

pid_t EndToEndTest::Find(pid_t launcher, const std::string& program, int rank) {
  for (const ChildProcess& child : ChildrenOf(launcher)) {
    if (child.arguments.empty() || !absl::EndsWith(child.arguments[0], program)) continue;
    for (size_t i = 0; i + 1 < child.arguments.size(); ++i) {
      if (child.arguments[i] == "--rank" &&
          child.arguments[i + 1] == absl::StrCat(rank)) {
        return child.pid;
      }
    }
  }
  return 0;
}

}  // namespace psring
