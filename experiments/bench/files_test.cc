#include "experiments/bench/files.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::HasSubstr;

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(FilesTest, CheckingChangesNothing) {
  const std::string path = testing::TempDir() + "/checked";
  EXPECT_OK(CheckWritable("--json", path));
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_OK(WriteFile(path, "text"));
  EXPECT_OK(CheckWritable("--json", path));
  EXPECT_EQ(ReadAll(path), "text");
  EXPECT_OK(CheckWritable("--json", ""));
  EXPECT_OK(WriteFile("", "text"));
}

TEST(FilesTest, WhatCannotBeWrittenIsNamed) {
  EXPECT_THAT(CheckWritable("--json", "/nowhere/file"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("--json /nowhere/file: cannot be written: No such")));
  EXPECT_THAT(WriteFile("/nowhere/file", "text"),
              StatusIs(absl::StatusCode::kInternal, "cannot write /nowhere/file"));
}

TEST(BenchFolderTest, StaysAfterAFailureAndNowhereElse) {
  std::string path;
  for (const absl::Status& good : {absl::OkStatus(), absl::CancelledError("enough")}) {
    {
      ASSERT_OK_AND_ASSIGN(BenchFolder made, BenchFolder::Make());
      BenchFolder folder = std::move(made);
      path = folder.path();
      EXPECT_EQ(folder.End(good), good);
      EXPECT_TRUE(std::filesystem::is_directory(path));
    }
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  {
    ASSERT_OK_AND_ASSIGN(BenchFolder folder, BenchFolder::Make());
    path = folder.path();
    EXPECT_THAT(folder.End(absl::UnavailableError("lost")),
                StatusIs(absl::StatusCode::kUnavailable, "logs in " + path + ": lost"));
  }
  EXPECT_TRUE(std::filesystem::is_directory(path));
  std::filesystem::remove_all(path);
}

}  // namespace
}  // namespace psring
