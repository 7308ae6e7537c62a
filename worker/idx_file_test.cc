#include "worker/idx_file.h"

#include <zlib.h>

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

using testing::ElementsAre;
using testing::HasSubstr;

std::string Path(const std::string& name) { return testing::TempDir() + "/" + name; }

std::string WritePlain(const std::string& name, const std::string& content) {
  std::ofstream(Path(name), std::ios::binary) << content;
  return Path(name);
}

std::string WriteGzip(const std::string& name, const std::string& content) {
  const gzFile file = gzopen(Path(name).c_str(), "wb");
  EXPECT_EQ(gzwrite(file, content.data(), content.size()),
            static_cast<int>(content.size()));
  EXPECT_EQ(gzclose(file), Z_OK);
  return Path(name);
}

std::string Content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string Word(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

// Two images of 2 x 3 pixels with the values 1 to 12.
std::string Images() {
  std::string content = Word(0x803) + Word(2) + Word(2) + Word(3);
  for (char pixel = 1; pixel <= 12; ++pixel) content += pixel;
  return content;
}

// The whole error: "FILE: problem".
auto IsDefect(const std::string& path, const std::string& problem) {
  return StatusIs(absl::StatusCode::kInvalidArgument,
                  testing::Eq(absl::StrCat(path, ": ", problem)));
}

TEST(IdxFileTest, ReadsGzipAndPlainFiles) {
  for (const std::string& path :
       {WriteGzip("images.gz", Images()), WritePlain("images", Images())}) {
    ASSERT_OK_AND_ASSIGN(const IdxFile file, ReadIdxFile(path, 3));
    EXPECT_THAT(file.header.sizes, ElementsAre(2, 2, 3));
    EXPECT_EQ(file.header.samples(), 2);
    EXPECT_THAT(file.values, ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
    ASSERT_OK_AND_ASSIGN(const IdxHeader header, ReadIdxHeader(path, 3));
    EXPECT_THAT(header.sizes, ElementsAre(2, 2, 3));
  }
}

TEST(IdxFileTest, ReadsMoreThanOneBufferful) {
  std::string content = Word(0x801) + Word(5'000'001);
  for (int i = 0; i < 5'000'001; ++i) content += static_cast<char>(i % 251);
  ASSERT_OK_AND_ASSIGN(const IdxFile file, ReadIdxFile(WriteGzip("large", content), 1));
  EXPECT_EQ(std::string(file.values.begin(), file.values.end()), content.substr(8));
}

TEST(IdxFileTest, MissingFile) {
  const std::string path = Path("nowhere.gz");
  const auto missing = StatusIs(absl::StatusCode::kNotFound, path + ": no such file");
  EXPECT_THAT(ReadIdxFile(path, 3), missing);
  EXPECT_THAT(ReadIdxHeader(path, 3), missing);
}

TEST(IdxFileTest, NeitherGzipNorIdx) {
  const std::string path = WritePlain("text.gz", "hello");
  const auto defect = IsDefect(path,
                               "neither gzip nor an IDX file: expected magic number "
                               "0x00000803, found 0x68656c6c");
  EXPECT_THAT(ReadIdxFile(path, 3), defect);
  EXPECT_THAT(ReadIdxHeader(path, 3), defect);
}

TEST(IdxFileTest, ImagesWhereLabelsWereExpected) {
  const std::string path = WriteGzip("labels.gz", Images());
  EXPECT_THAT(
      ReadIdxFile(path, 1),
      IsDefect(path,
               "wrong kind of file: expected magic number 0x00000801, found 0x00000803"));
}

TEST(IdxFileTest, HeaderTooShort) {
  for (const int length : {0, 3, 15}) {
    const std::string path = WriteGzip("short.gz", Images().substr(0, length));
    EXPECT_THAT(
        ReadIdxHeader(path, 3),
        IsDefect(path, absl::StrCat("too short: expected a header of 16 bytes, found ",
                                    length, " bytes")));
  }
}

TEST(IdxFileTest, FewerValuesThanTheHeaderSays) {
  const std::string path = WriteGzip("few.gz", Images().substr(0, 16 + 5));
  EXPECT_THAT(ReadIdxFile(path, 3),
              IsDefect(path, "too short: expected 12 bytes after the header, found 5"));
}

TEST(IdxFileTest, ClaimOfMoreThanMemoryIsJustTooShort) {
  const std::string path =
      WriteGzip("claim.gz", Word(0x803) + Word(0x7fffffff) + Word(0xffffffff) + Word(1) +
                                std::string(100, 'x'));
  EXPECT_THAT(ReadIdxFile(path, 3),
              IsDefect(path,
                       "too short: expected 9223372030412324865 bytes after the header, "
                       "found 100"));
}

TEST(IdxFileTest, SizesOverflow) {
  const std::string path =
      WriteGzip("overflow.gz", Word(0x803) + Word(0xffffffff) + Word(0xffffffff) +
                                   Word(0xffffffff) + std::string(100, 'x'));
  EXPECT_THAT(ReadIdxHeader(path, 3),
              IsDefect(path,
                       "sizes overflow: expected less than 2^63 values, found 4294967295 "
                       "x 4294967295 x 4294967295"));
}

TEST(IdxFileTest, EmptyDimension) {
  const std::string path =
      WriteGzip("empty.gz", Word(0x803) + Word(2) + Word(0) + Word(3));
  EXPECT_THAT(ReadIdxHeader(path, 3),
              IsDefect(path, "empty: expected sizes of at least 1, found 2 x 0 x 3"));
}

TEST(IdxFileTest, TrailingBytes) {
  const std::string path = WriteGzip("long.gz", Images() + "!");
  EXPECT_THAT(
      ReadIdxFile(path, 3),
      IsDefect(path, "trailing bytes: expected 12 bytes after the header, found more"));
}

// Wherever a gzip file is cut, in its header, its data or its checksum, it is refused.
TEST(IdxFileTest, GzipCutOffAnywhere) {
  const std::string whole = Content(WriteGzip("whole.gz", Images()));
  for (size_t length = 2; length < whole.size(); ++length) {
    const std::string path = WritePlain("cut.gz", whole.substr(0, length));
    EXPECT_THAT(ReadIdxFile(path, 3),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("cut.gz: gzip data is cut off: expected more after")))
        << length << " of " << whole.size() << " bytes";
  }
}

TEST(IdxFileTest, GzipWithAWrongChecksum) {
  std::string content = Content(WriteGzip("good.gz", Images()));
  content[content.size() - 8] ^= 1;
  const std::string path = WritePlain("checksum.gz", content);
  EXPECT_THAT(ReadIdxFile(path, 3),
              IsDefect(path, "gzip data is damaged: incorrect data check"));
}

TEST(IdxFileTest, FolderInsteadOfAFile) {
  EXPECT_THAT(ReadIdxFile(testing::TempDir(), 3),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("cannot be read: Is a directory")));
}

}  // namespace
}  // namespace psring
