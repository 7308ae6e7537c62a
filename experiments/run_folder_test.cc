#include "experiments/run_folder.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::UnorderedElementsAre;

class RunFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = absl::StrCat(testing::TempDir(), "/run_folder_XXXXXX");
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Path(const std::string& name) const {
    return absl::StrCat(folder_, "/", name);
  }
  static std::string Read(const std::string& path) {
    std::ostringstream content;
    content << std::ifstream(path).rdbuf();
    return content.str();
  }
  static std::vector<std::string> FilesIn(const std::string& path) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  std::string folder_;
};

TEST_F(RunFolderTest, MakesANewFolderWithItsParents) {
  ASSERT_OK_AND_ASSIGN(const RunFolder run,
                       RunFolder::Create(Path("deep/er/out"), "name"));
  EXPECT_EQ(run.path(), Path("deep/er/out"));
  EXPECT_TRUE(fs::is_directory(run.path()));
}

TEST_F(RunFolderTest, TakesAnEmptyFolderAndRefusesAFullOne) {
  ASSERT_OK_AND_ASSIGN(const RunFolder run, RunFolder::Create(folder_, "name"));
  ASSERT_OK(run.Write("file", "content"));
  EXPECT_THAT(RunFolder::Create(folder_, "name"),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(folder_), HasSubstr("not empty"))));
  EXPECT_EQ(Read(Path("file")), "content");
}

TEST_F(RunFolderTest, RefusesAFileAndAFolderInsideOne) {
  std::ofstream(Path("file")) << "content";
  for (const char* name : {"file", "file/out"}) {
    EXPECT_THAT(
        RunFolder::Create(Path(name), "name"),
        StatusIs(StatusCode::kInvalidArgument,
                 HasSubstr(absl::StrCat("cannot use the output folder ", Path(name)))));
  }
}

// Two runs of one second do not share a folder.
TEST_F(RunFolderTest, NamesAFolderByExperimentAndTime) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  const auto first = RunFolder::Create("", "mnist");
  const auto second = RunFolder::Create("", "mnist");
  fs::current_path(before);
  ASSERT_OK(first);
  ASSERT_OK(second);
  EXPECT_THAT(first->path(), MatchesRegex("runs/mnist-[0-9]{8}-[0-9]{6}"));
  EXPECT_THAT(second->path(), MatchesRegex("runs/mnist-[0-9]{8}-[0-9]{6}(-2)?"));
  EXPECT_NE(first->path(), second->path());
  EXPECT_TRUE(fs::is_directory(Path(first->path())));
  EXPECT_TRUE(fs::is_directory(Path(second->path())));
}

TEST_F(RunFolderTest, WriteReplacesWholeFilesAndLeavesNothingBeside) {
  ASSERT_OK_AND_ASSIGN(const RunFolder run, RunFolder::Create(folder_, "name"));
  const std::string with_zero("short\0er", 8);
  ASSERT_OK(run.Write("file", "a longer content"));
  ASSERT_OK(run.Write("file", with_zero));
  EXPECT_EQ(Read(Path("file")), with_zero);
  ASSERT_OK(run.Write("empty", ""));
  EXPECT_THAT(FilesIn(folder_), UnorderedElementsAre("file", "empty"));
}

TEST_F(RunFolderTest, AFailedWriteNamesTheFileAndLeavesNothingBeside) {
  ASSERT_OK_AND_ASSIGN(const RunFolder run, RunFolder::Create(Path("out"), "name"));
  EXPECT_THAT(run.Write("no/such/file", "content"),
              StatusIs(StatusCode::kInternal,
                       HasSubstr(absl::StrCat("cannot write ", Path("out/no/such/file"),
                                              ": No such file or directory"))));
  fs::create_directories(Path("out/taken/inner"));
  EXPECT_THAT(run.Write("taken", "content"),
              StatusIs(StatusCode::kInternal,
                       HasSubstr(absl::StrCat("cannot write ", Path("out/taken")))));
  EXPECT_THAT(FilesIn(Path("out")), UnorderedElementsAre("taken"));
}

TEST_F(RunFolderTest, LogFoldersAreByArm) {
  ASSERT_OK_AND_ASSIGN(const RunFolder run, RunFolder::Create(Path("out"), "name"));
  ASSERT_OK_AND_ASSIGN(const std::string logs, run.MakeLogFolder("ring"));
  EXPECT_EQ(logs, Path("out/logs/ring"));
  EXPECT_TRUE(fs::is_directory(logs));
  ASSERT_OK(run.Write("logs/servers", "in the way"));
  EXPECT_THAT(run.MakeLogFolder("servers"),
              StatusIs(StatusCode::kInternal, HasSubstr("out/logs/servers")));
}

}  // namespace
}  // namespace psring
