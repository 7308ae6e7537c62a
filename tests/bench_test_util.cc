#include "tests/bench_test_util.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace psring {

using testing::HasSubstr;
using testing::Optional;

std::unique_ptr<Subprocess> BenchCommandTest::Bench(
    std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), {"experiments/psring", "bench", command_});
  return std::make_unique<Subprocess>(arguments);
}

nlohmann::json BenchCommandTest::WrittenJson() const {
  return nlohmann::json::parse(std::ifstream(Path("rows.json")));
}

void BenchCommandTest::ExpectRefused(const Refusals& refusals) const {
  for (const auto& [arguments, message] : refusals) {
    const auto bench = Bench(arguments);
    EXPECT_THAT(bench->Wait(kPatience), Optional(2)) << message;
    EXPECT_EQ(bench->out(), "");
    EXPECT_THAT(bench->err(), HasSubstr(message));
    EXPECT_THAT(std::vector<std::string>(absl::StrSplit(bench->err(), '\n')),
                testing::SizeIs(2));
  }
}

void BenchCommandTest::ExpectOutOfRange(
    const std::vector<std::pair<std::string, std::string>>& flags) const {
  for (const auto& [flag, value] : flags) {
    const auto bench = Bench({flag, value});
    EXPECT_THAT(bench->Wait(kPatience), Optional(2)) << flag;
    EXPECT_THAT(bench->err(), HasSubstr("not in range")) << flag;
  }
}

void ExpectKeptLogs(const std::string& err) {
  ASSERT_THAT(err, HasSubstr("logs in /"));
  const size_t begin = err.find("logs in ") + 8;
  const std::string folder = err.substr(begin, err.find(':', begin) - begin);
  EXPECT_TRUE(std::filesystem::is_directory(folder)) << folder;
  EXPECT_NE(std::filesystem::remove_all(folder), 0);
}

}  // namespace psring
