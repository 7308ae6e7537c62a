#include "experiments/bench/outputs.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class BenchOutputsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }

  std::string Path(const std::string& name) const {
    return absl::StrCat(folder_, "/", name);
  }
  static std::string TextOf(const std::string& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  const std::string folder_ = absl::StrCat(testing::TempDir(), "/outputs");
};

TEST_F(BenchOutputsTest, AFolderThatIsNotThereIsFoundBeforeMeasuring) {
  const std::string path = Path("missing/file");
  const auto refusal = [&](std::string BenchOptions::*file) {
    BenchOptions options;
    options.*file = path;
    return BenchOutputs::Prepare(options).status();
  };
  const auto names = [](const char* flag) {
    return StatusIs(absl::StatusCode::kInvalidArgument,
                    AllOf(HasSubstr(flag), HasSubstr("cannot be written: No such file")));
  };
  EXPECT_THAT(refusal(&BenchOptions::json_path), names("--json "));
  EXPECT_THAT(refusal(&BenchOptions::csv_path), names("--csv "));
  EXPECT_THAT(refusal(&BenchOptions::table_path), names("--write-table "));
}

TEST_F(BenchOutputsTest, PreparingChangesNothing) {
  std::ofstream(Path("old.csv")) << "as it was";
  BenchOptions options;
  options.json_path = Path("new.json");
  options.csv_path = Path("old.csv");
  options.table_path = Path("new.textproto");
  EXPECT_OK(BenchOutputs::Prepare(options).status());
  EXPECT_EQ(TextOf(Path("old.csv")), "as it was");
  EXPECT_FALSE(std::filesystem::exists(Path("new.json")));
  EXPECT_FALSE(std::filesystem::exists(Path("new.textproto")));
}

TEST_F(BenchOutputsTest, AFailedWriteDoesNotHideAWrongSum) {
  BenchOptions options;
  options.json_path = Path("rows.json");
  options.csv_path = Path("rows.csv");
  options.table_path = Path("table.textproto");
  auto outputs = BenchOutputs::Prepare(options);
  ASSERT_OK(outputs.status());
  BenchContext context;
  context.ranks = 2;
  std::filesystem::create_directory(Path("rows.json"));  // Now nobody can write it.
  EXPECT_THAT(outputs->Write(context, {}, ""),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("rows.json")));
  std::filesystem::remove(Path("rows.csv"));
  std::filesystem::remove(Path("table.textproto"));

  const absl::Status status = outputs->Write(context, {}, "ring, a wrong sum");
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kCheckFailed);
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("ring, a wrong sum"), HasSubstr("rows.json"))));
  EXPECT_TRUE(std::filesystem::exists(Path("rows.csv")));
  EXPECT_FALSE(std::filesystem::exists(Path("table.textproto")));
}

}  // namespace
}  // namespace psring
