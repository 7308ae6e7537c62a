#include "experiments/report/page_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;

class PageFileTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }

  std::string Read() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::string folder_ = absl::StrCat(testing::TempDir(), "page_file");
  const std::string path_ = absl::StrCat(folder_, "/page.html");
};

TEST_F(PageFileTest, ReplacesTheOneBefore) {
  ASSERT_OK(WritePage(path_, "one"));
  ASSERT_OK(WritePage(path_, "two"));
  EXPECT_EQ(Read(), "two");
  EXPECT_FALSE(fs::exists(path_ + ".new"));
}

TEST_F(PageFileTest, AFolderThatIsNotThereIsWrongUsage) {
  const std::string path = folder_ + "/none/page.html";
  EXPECT_THAT(WritePage(path, "page"),
              StatusIs(StatusCode::kInvalidArgument,
                       absl::StrCat("cannot write ", path,
                                    ": No such file or directory; allowed: a file in a "
                                    "folder that can be written")));
}

TEST_F(PageFileTest, ADiskWithoutRoomKeepsThePageBefore) {
  ASSERT_OK(WritePage(path_, "one"));
  fs::create_symlink("/dev/full", path_ + ".new");
  EXPECT_THAT(WritePage(path_, "two"),
              StatusIs(StatusCode::kInternal, absl::StrCat("cannot write ", path_,
                                                           ": No space left on device")));
  EXPECT_EQ(Read(), "one");
  EXPECT_FALSE(fs::is_symlink(path_ + ".new"));
}

TEST_F(PageFileTest, AFolderInItsPlaceIsWrongUsage) {
  fs::create_directory(path_);
  EXPECT_THAT(WritePage(path_, "page"),
              StatusIs(StatusCode::kInvalidArgument,
                       absl::StrCat("cannot write ", path_, ": Is a directory")));
}

}  // namespace
}  // namespace psring
