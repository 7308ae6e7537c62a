#include "common/block_file.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr auto kIgnored = [](int64_t) {};
// Of a file without arrays: what comes before the header, and after it.
constexpr int64_t kBefore = 20;
constexpr int64_t kCrc = 4;
constexpr int64_t kTrailer = 16;

std::vector<float> Floats(int64_t count, float first) {
  std::vector<float> floats;
  for (int64_t i = 0; i < count; ++i) floats.push_back(first + static_cast<float>(i));
  return floats;
}

class BlockFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = absl::StrCat(testing::TempDir(), "/block_file_XXXXXX");
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = absl::StrCat(folder_, "/part");
  }
  void TearDown() override { fs::remove_all(folder_); }

  absl::StatusOr<BlockFileSum> Write(
      const std::string& header, const std::vector<std::vector<float>>& arrays) const {
    return WriteBlockFile(path_, header, {arrays.begin(), arrays.end()}, kIgnored);
  }

  std::string Content() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void Replace(const std::string& content) const {
    std::ofstream(path_, std::ios::binary) << content;
  }

  // Opens the file, and reads all of it.
  absl::Status Check() const {
    const auto file = BlockFile::Open(path_);
    return file.ok() ? file->Verify(kIgnored) : file.status();
  }
  std::string HeaderOf() const {
    const auto file = BlockFile::Open(path_);
    return file.ok() ? file->header() : file.status().ToString();
  }

  std::string folder_;
  std::string path_;
};

TEST_F(BlockFileTest, GivesBackWhatWasWritten) {
  const std::vector<std::vector<float>> arrays = {
      Floats(5, 1), {}, Floats(2 * kBlockFloats + 7, 10), Floats(kBlockFloats, -3)};
  int64_t wrote = 0;
  ASSERT_OK_AND_ASSIGN(const BlockFileSum sum,
                       WriteBlockFile(path_, "header", {arrays.begin(), arrays.end()},
                                      [&](int64_t bytes) { wrote += bytes; }));
  EXPECT_EQ(sum.bytes, static_cast<int64_t>(fs::file_size(path_)));
  EXPECT_EQ(wrote, sum.bytes);
  ASSERT_OK_AND_ASSIGN(const BlockFile file, BlockFile::Open(path_));
  EXPECT_EQ(file.header(), "header");
  EXPECT_EQ(file.sum(), sum);
  ASSERT_EQ(file.arrays(), 4);
  for (int array = 0; array < 4; ++array) {
    ASSERT_EQ(file.count(array), std::ssize(arrays[array]));
    std::vector<float> read(arrays[array].size());
    ASSERT_OK(file.Read(array, 0, read));
    EXPECT_EQ(read, arrays[array]);
  }
  EXPECT_OK(file.Verify(kIgnored));
  EXPECT_FALSE(fs::exists(path_ + ".new"));
}

TEST_F(BlockFileTest, ReadsAnyPart) {
  const std::vector<float> floats = Floats(2 * kBlockFloats + 7, 0);
  ASSERT_OK(Write("", {Floats(3, 0), floats}));
  ASSERT_OK_AND_ASSIGN(const BlockFile file, BlockFile::Open(path_));
  for (const int64_t begin : {int64_t{0}, int64_t{1}, kBlockFloats - 1, kBlockFloats,
                              kBlockFloats + 1, 2 * kBlockFloats + 6}) {
    for (const int64_t count : {int64_t{0}, int64_t{1}, kBlockFloats, kBlockFloats + 2}) {
      if (begin + count > std::ssize(floats)) continue;
      std::vector<float> read(count, -1);
      ASSERT_OK(file.Read(1, begin, read));
      EXPECT_TRUE(std::equal(read.begin(), read.end(), floats.begin() + begin))
          << begin << " " << count;
    }
  }
}

TEST_F(BlockFileTest, ThereIsNone) {
  EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kNotFound, HasSubstr(path_)));
}

TEST_F(BlockFileTest, FindsEveryByteThatChanges) {
  ASSERT_OK(Write("header", {Floats(3, 1), Floats(2, 5)}));
  const std::string content = Content();
  for (size_t byte = 0; byte < content.size(); ++byte) {
    std::string damaged = content;
    damaged[byte] = static_cast<char>(damaged[byte] ^ 0x10);
    Replace(damaged);
    EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(path_))) << byte;
  }
}

TEST_F(BlockFileTest, FindsEveryLengthThatIsTooShortOrTooLong) {
  ASSERT_OK(Write("header", {Floats(3, 1), Floats(2, 5)}));
  const std::string content = Content();
  for (size_t length = 0; length < content.size(); ++length) {
    Replace(content.substr(0, length));
    EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kDataLoss,
                                  HasSubstr(absl::StrCat(path_, " is truncated: it has ",
                                                         length, " bytes"))))
        << length;
  }
  Replace(content + "x");
  EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kDataLoss,
                                HasSubstr(absl::StrCat(content.size() + 1, " bytes"))));
}

TEST_F(BlockFileTest, NamesTheBlock) {
  ASSERT_OK(Write("h", {Floats(1, 1), Floats(2 * kBlockFloats + 1, 2)}));
  const std::string content = Content();
  // Where each block ends; the last bytes of one are its checksum.
  const int64_t head = kBefore + 1 + 2 * 8 + kCrc;
  const int64_t block = kBlockFloats * 4 + kCrc;
  const std::vector<int64_t> ends = {head + 8, head + 8 + block, head + 8 + 2 * block,
                                     head + 8 + 2 * block + 8};
  ASSERT_EQ(ends.back() + kTrailer, std::ssize(content));
  for (size_t b = 0; b < ends.size(); ++b) {
    for (const int64_t byte : {ends[b] - 1, ends[b] - 5}) {
      std::string damaged = content;
      damaged[byte] = static_cast<char>(damaged[byte] ^ 1);
      Replace(damaged);
      EXPECT_THAT(Check(),
                  StatusIs(absl::StatusCode::kDataLoss,
                           AllOf(HasSubstr(absl::StrCat(" is damaged: block ", b, " ")),
                                 HasSubstr(absl::StrCat(" to ", ends[b], ")")))));
      // What lies elsewhere is still read.
      ASSERT_OK_AND_ASSIGN(const BlockFile file, BlockFile::Open(path_));
      std::vector<float> read(1);
      EXPECT_EQ(file.Read(0, 0, read).ok(), b != 0);
      EXPECT_EQ(file.Read(1, kBlockFloats - 1, read).ok(), b != 1);
      EXPECT_EQ(file.Read(1, kBlockFloats, read).ok(), b != 2);
      EXPECT_EQ(file.Read(1, 2 * kBlockFloats, read).ok(), b != 3);
    }
  }
}

TEST_F(BlockFileTest, FindsBlocksThatHaveChangedPlaces) {
  ASSERT_OK(Write("", {Floats(2, 1), Floats(2, 5)}));
  std::string content = Content();
  const size_t first = kBefore + 2 * 8 + kCrc;
  const size_t block = 2 * 4 + kCrc;
  std::swap_ranges(content.begin() + first, content.begin() + first + block,
                   content.begin() + first + block);
  Replace(content);
  EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kDataLoss,
                                HasSubstr("its blocks are not those of its trailer")));
}

TEST_F(BlockFileTest, SaysWhatIsNoneOrOfAnotherFormat) {
  Replace("SQLite format 3, and many more bytes of something else entirely");
  EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kDataLoss,
                                HasSubstr("does not begin like a checkpoint")));
  ASSERT_OK(Write("", {}));
  std::string content = Content();
  content[8] = 2;
  Replace(content);
  EXPECT_THAT(Check(), StatusIs(absl::StatusCode::kDataLoss,
                                HasSubstr("has format 2, this program reads 1")));
}

// The system kills the writer when it writes that byte of a file: at each one in turn.
TEST_F(BlockFileTest, IsTheOldOrTheNewWhereverTheWriterDies) {
  ASSERT_OK(Write("old", {Floats(4, 1)}));
  const std::vector<std::vector<float>> arrays = {Floats(3, 7), Floats(2, 8)};
  ASSERT_OK_AND_ASSIGN(const BlockFileSum sum,
                       WriteBlockFile(folder_ + "/other", "new",
                                      {arrays.begin(), arrays.end()}, kIgnored));
  for (int64_t bytes = 0; bytes <= sum.bytes; ++bytes) {
    const pid_t child = fork();
    if (child == 0) {
      const rlimit no_core = {0, 0};
      const rlimit limit = {static_cast<rlim_t>(bytes), static_cast<rlim_t>(bytes)};
      if (setrlimit(RLIMIT_CORE, &no_core) != 0 || setrlimit(RLIMIT_FSIZE, &limit) != 0) {
        _exit(2);
      }
      // A write stops at the limit, and one that begins there kills.
      signal(SIGXFSZ, SIG_DFL);
      _exit(Write("new", arrays).ok() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (bytes < sum.bytes) {
      ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ) << status;
      ASSERT_EQ(HeaderOf(), "old") << bytes;
    } else {
      ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
      ASSERT_EQ(HeaderOf(), "new");
    }
    ASSERT_OK(Check());
  }
}

TEST_F(BlockFileTest, KeepsTheOldOneWhereTheSystemRefuses) {
  ASSERT_OK(Write("old", {Floats(4, 1)}));
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit = {30, 30};
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(2);
    const auto written = Write("new", {Floats(3, 7)});
    _exit(written.status().code() == absl::StatusCode::kInternal &&
                  !fs::exists(path_ + ".new")
              ? 0
              : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(HeaderOf(), "old");
  EXPECT_THAT(WriteBlockFile(folder_ + "/none/part", "", {}, kIgnored),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("none/part")));
}

}  // namespace
}  // namespace psring
