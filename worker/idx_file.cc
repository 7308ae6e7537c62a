#include "worker/idx_file.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"

namespace psring {
namespace {

// Third byte of the magic number; the fourth is the number of dimensions.
constexpr uint32_t kUnsignedBytes = 0x08;

// The bytes of a file, decompressed where it is gzip (zlib passes other files through).
class ByteReader {
 public:
  static absl::StatusOr<ByteReader> Open(const std::string& path) {
    errno = 0;
    gzFile file = gzopen(path.c_str(), "rb");
    if (file == nullptr) {
      if (errno == ENOENT) return absl::NotFoundError(Message(path, "no such file"));
      return absl::InvalidArgumentError(
          Message(path, absl::StrCat("cannot be opened: ", std::strerror(errno))));
    }
    return ByteReader(path, file);
  }

  // Reads until `out` is full or the content ends, and returns the number of bytes read.
  // A gzip file that breaks off or whose checksum is wrong is an error, found no later
  // than by the call that reaches the end.
  absl::StatusOr<int64_t> Read(std::span<uint8_t> out) {
    constexpr size_t kMostAtOnce = 1 << 20;
    size_t done = 0;
    while (done < out.size()) {
      const int got = gzread(file_.get(), out.data() + done,
                             std::min(out.size() - done, kMostAtOnce));
      if (got <= 0) {
        RETURN_IF_ERROR(CheckEnd());
        break;
      }
      done += got;
      position_ += got;
    }
    return static_cast<int64_t>(done);
  }

  bool compressed() const { return gzdirect(file_.get()) == 0; }

  absl::Status Error(absl::string_view problem) const {
    return absl::InvalidArgumentError(Message(path_, problem));
  }

 private:
  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };

  ByteReader(std::string path, gzFile file) : path_(std::move(path)), file_(file) {}

  static std::string Message(absl::string_view path, absl::string_view problem) {
    return absl::StrCat(path, ": ", problem);
  }

  // Why no more bytes came; OK where the content simply ends.
  absl::Status CheckEnd() const {
    int code = Z_OK;
    const absl::string_view message = gzerror(file_.get(), &code);
    if (code == Z_OK || code == Z_STREAM_END) return absl::OkStatus();
    if (code == Z_BUF_ERROR) {
      return Error(absl::StrCat("gzip data is cut off: expected more after ", position_,
                                " decompressed bytes, found the end of the file"));
    }
    return Error(
        absl::StrCat(code == Z_ERRNO ? "cannot be read: " : "gzip data is damaged: ",
                     absl::StripPrefix(message, absl::StrCat(path_, ": "))));
  }

  std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
  int64_t position_ = 0;
};

uint32_t BigEndian(std::span<const uint8_t, 4> bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 |
         uint32_t{bytes[3]};
}

// Product of the sizes, or -1 where it is 2^63 or more. Sizes are 1 to 2^32 - 1.
int64_t ValueCount(const std::vector<int64_t>& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) {
    if (__builtin_mul_overflow(count, size, &count)) return -1;
  }
  return count;
}

absl::StatusOr<IdxHeader> ReadHeader(ByteReader* reader, int dimensions) {
  std::vector<uint8_t> bytes(4 + 4 * dimensions);
  ASSIGN_OR_RETURN(const int64_t got, reader->Read(bytes));
  const uint32_t expected = kUnsignedBytes << 8 | static_cast<uint32_t>(dimensions);
  const uint32_t magic = BigEndian(std::span(bytes).first<4>());
  // Before the length: a file of another kind may well be shorter than this header.
  if (got >= 4 && magic != expected) {
    return reader->Error(absl::StrFormat(
        "%s: expected magic number 0x%08x, found 0x%08x",
        reader->compressed() ? "wrong kind of file" : "neither gzip nor an IDX file",
        expected, magic));
  }
  if (got < static_cast<int64_t>(bytes.size())) {
    return reader->Error(absl::StrCat("too short: expected a header of ", bytes.size(),
                                      " bytes, found ", got, " bytes"));
  }
  IdxHeader header;
  for (size_t at = 4; at < bytes.size(); at += 4) {
    header.sizes.push_back(BigEndian(std::span(bytes).subspan(at).first<4>()));
  }
  const std::string found = absl::StrJoin(header.sizes, " x ");
  if (std::ranges::count(header.sizes, 0) > 0) {
    return reader->Error(
        absl::StrCat("empty: expected sizes of at least 1, found ", found));
  }
  if (ValueCount(header.sizes) < 0) {
    return reader->Error(
        absl::StrCat("sizes overflow: expected less than 2^63 values, found ", found));
  }
  return header;
}

}  // namespace

absl::StatusOr<IdxHeader> ReadIdxHeader(const std::string& path, int dimensions) {
  ASSIGN_OR_RETURN(ByteReader reader, ByteReader::Open(path));
  return ReadHeader(&reader, dimensions);
}

absl::StatusOr<IdxFile> ReadIdxFile(const std::string& path, int dimensions) {
  ASSIGN_OR_RETURN(ByteReader reader, ByteReader::Open(path));
  IdxFile file;
  ASSIGN_OR_RETURN(file.header, ReadHeader(&reader, dimensions));
  const int64_t expected = ValueCount(file.header.sizes);

  // The buffer at most doubles each time what the file really holds has filled it.
  constexpr int64_t kFirstBytes = 1 << 20;
  std::vector<uint8_t>& values = file.values;
  int64_t filled = 0;
  while (filled < expected) {
    const int64_t wanted = std::min(expected, std::max(kFirstBytes, 2 * filled));
    values.reserve(wanted);
    values.resize(wanted);
    ASSIGN_OR_RETURN(const int64_t got, reader.Read(std::span(values).subspan(filled)));
    filled += got;
    if (filled < wanted) {
      return reader.Error(absl::StrCat("too short: expected ", expected,
                                       " bytes after the header, found ", filled));
    }
  }
  // Looking for one byte more also makes zlib compare the checksum behind the last one.
  uint8_t extra = 0;
  ASSIGN_OR_RETURN(const int64_t behind, reader.Read(std::span(&extra, 1)));
  if (behind > 0) {
    return reader.Error(absl::StrCat("trailing bytes: expected ", expected,
                                     " bytes after the header, found more"));
  }
  return file;
}

}  // namespace psring
