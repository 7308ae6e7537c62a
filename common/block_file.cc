#include "common/block_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/crc32c.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace psring {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr absl::string_view kMagic = "psringCP";
constexpr absl::string_view kEnd = "CP\r\n";
constexpr uint32_t kFormat = 1;
constexpr int64_t kCrcBytes = sizeof(uint32_t);
// The system is asked to write what it has after so many, so that a slow disk shows while
// the file is written, and not as one long wait at its end.
constexpr int64_t kSyncedBytes = 64 << 20;
constexpr int64_t kFixedHead = 8 + 3 * sizeof(uint32_t);
constexpr int64_t kTrailer = sizeof(uint64_t) + 2 * sizeof(uint32_t);
// Far more than there is any use for; a damaged number must not make us allocate.
constexpr uint32_t kMostHeader = 64 << 20;
constexpr uint32_t kMostArrays = 16 << 20;
constexpr uint64_t kMostFloats = uint64_t{1} << 48;

int64_t BlocksOf(int64_t count) { return (count + kBlockFloats - 1) / kBlockFloats; }

int64_t BytesOf(int64_t count) {
  return count * int64_t{sizeof(float)} + BlocksOf(count) * kCrcBytes;
}

template <typename Number>
void Append(Number number, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&number), sizeof number);
}

template <typename Number>
Number NumberAt(absl::string_view bytes, size_t offset) {
  Number number;
  memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

std::span<const std::byte> BytesOf(absl::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

uint32_t Chain(uint32_t crc, uint32_t before) {
  return Crc32c(std::as_bytes(std::span(&crc, 1)), before);
}

std::string Trailer(const BlockFileSum& sum) {
  std::string bytes;
  Append(static_cast<uint64_t>(sum.bytes), &bytes);
  Append(sum.crc, &bytes);
  absl::StrAppend(&bytes, kEnd);
  return bytes;
}

absl::Status CannotWrite(const std::string& path, int error) {
  return absl::InternalError(absl::StrCat("cannot write ", path, ": ", strerror(error)));
}

// Owns a descriptor.
class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return descriptor_; }

 private:
  const int descriptor_;
};

// errno, or 0.
int WriteAll(int descriptor, std::array<iovec, 2> pieces) {
  size_t next = 0;
  while (next < pieces.size()) {
    if (pieces[next].iov_len == 0) {
      ++next;
      continue;
    }
    const ssize_t written =
        writev(descriptor, &pieces[next], static_cast<int>(pieces.size() - next));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    for (auto left = static_cast<size_t>(written); left > 0;) {
      const size_t now = std::min(left, pieces[next].iov_len);
      pieces[next].iov_base = static_cast<char*>(pieces[next].iov_base) + now;
      pieces[next].iov_len -= now;
      left -= now;
      if (pieces[next].iov_len == 0) ++next;
    }
  }
  return 0;
}

iovec Piece(const void* data, size_t bytes) {
  return {.iov_base = const_cast<void*>(data), .iov_len = bytes};
}

std::string HeadOf(absl::string_view header,
                   const std::vector<std::span<const float>>& arrays) {
  std::string head(kMagic);
  Append(kFormat, &head);
  Append(static_cast<uint32_t>(header.size()), &head);
  Append(static_cast<uint32_t>(arrays.size()), &head);
  absl::StrAppend(&head, header);
  for (const std::span<const float> array : arrays) Append(uint64_t{array.size()}, &head);
  return head;
}

// errno, or 0.
int WriteContent(int descriptor, absl::string_view header,
                 const std::vector<std::span<const float>>& arrays,
                 absl::FunctionRef<void(int64_t bytes)> wrote, BlockFileSum* sum) {
  int64_t synced = 0;
  const auto write = [&](iovec first, iovec second) {
    int error = WriteAll(descriptor, {first, second});
    if (error == 0 && sum->bytes - synced >= kSyncedBytes) {
      synced = sum->bytes;
      if (fdatasync(descriptor) != 0) error = errno;
    }
    const auto bytes = static_cast<int64_t>(first.iov_len + second.iov_len);
    sum->bytes += bytes;
    if (error == 0) wrote(bytes);
    return error;
  };
  const std::string head = HeadOf(header, arrays);
  uint32_t crc = Crc32c(BytesOf(head));
  sum->crc = Chain(crc, 0);
  if (const int error = write(Piece(head.data(), head.size()), Piece(&crc, sizeof crc))) {
    return error;
  }
  for (std::span<const float> array : arrays) {
    while (!array.empty()) {
      const auto block = array.first(std::min<size_t>(array.size(), kBlockFloats));
      crc = Crc32c(std::as_bytes(block));
      sum->crc = Chain(crc, sum->crc);
      if (const int error =
              write(Piece(block.data(), block.size_bytes()), Piece(&crc, sizeof crc))) {
        return error;
      }
      array = array.subspan(block.size());
    }
  }
  BlockFileSum whole = *sum;
  whole.bytes += kTrailer;
  const std::string trailer = Trailer(whole);
  return write(Piece(trailer.data(), trailer.size()), Piece(nullptr, 0));
}

}  // namespace

absl::StatusOr<BlockFileSum> WriteBlockFile(
    const std::string& path, absl::string_view header,
    const std::vector<std::span<const float>>& arrays,
    absl::FunctionRef<void(int64_t bytes)> wrote) {
  CHECK_LE(header.size(), kMostHeader);
  CHECK_LE(arrays.size(), kMostArrays);
  const std::string beside = absl::StrCat(path, ".new");
  BlockFileSum sum;
  int error = 0;
  {
    const Descriptor file(
        open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (file.get() < 0) return CannotWrite(path, errno);
    error = WriteContent(file.get(), header, arrays, wrote, &sum);
    if (error == 0 && fsync(file.get()) != 0) error = errno;
  }
  if (error == 0 && rename(beside.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    unlink(beside.c_str());
    return CannotWrite(path, error);
  }
  // The name is on the disk when the folder is; EINVAL: of a file system where folders
  // cannot be synced.
  const std::string folder = std::filesystem::path(path).parent_path().string();
  const Descriptor parent(
      open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.get() < 0 || (fsync(parent.get()) != 0 && errno != EINVAL)) {
    return CannotWrite(path, errno);
  }
  return sum;
}

BlockFile::BlockFile(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

BlockFile::BlockFile(BlockFile&& other) noexcept
    : path_(other.path_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      header_(std::move(other.header_)),
      counts_(std::move(other.counts_)),
      offsets_(std::move(other.offsets_)),
      first_(std::move(other.first_)),
      head_crc_(other.head_crc_),
      sum_(other.sum_) {}

BlockFile::~BlockFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::StatusOr<BlockFile> BlockFile::Open(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) {
    const std::string text = absl::StrCat("cannot read ", path, ": ", strerror(errno));
    return errno == ENOENT ? absl::NotFoundError(text) : absl::InternalError(text);
  }
  BlockFile file(path, descriptor);
  RETURN_IF_ERROR(file.ReadHead());
  return file;
}

absl::Status BlockFile::ReadHead() {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) {
    return absl::InternalError(
        absl::StrCat("cannot read ", path_, ": ", strerror(errno)));
  }
  const int64_t there = status.st_size;
  const auto cut_off = [&](int64_t wanted) {
    return absl::DataLossError(absl::StrCat(path_, " is truncated: it has ", there,
                                            " bytes of at least ", wanted));
  };
  if (there < kFixedHead) return cut_off(kFixedHead + kCrcBytes + kTrailer);
  std::string head(kFixedHead, '\0');
  const auto bytes = [](std::string& text) {
    return std::as_writable_bytes(std::span(text.data(), text.size()));
  };
  RETURN_IF_ERROR(ReadBytes(0, bytes(head)));
  if (!absl::StartsWith(head, kMagic))
    return Damaged("it does not begin like a checkpoint");
  const auto format = NumberAt<uint32_t>(head, 8);
  const auto header = NumberAt<uint32_t>(head, 12);
  const auto arrays = NumberAt<uint32_t>(head, 16);
  if (format != kFormat) {
    return absl::DataLossError(
        absl::StrCat(path_, " has format ", format, ", this program reads ", kFormat));
  }
  if (header > kMostHeader || arrays > kMostArrays) {
    return Damaged("its head names impossible lengths");
  }
  const int64_t head_bytes = kFixedHead + int64_t{header} + int64_t{arrays} * 8;
  if (there < head_bytes + kCrcBytes + kTrailer) {
    return cut_off(head_bytes + kCrcBytes + kTrailer);
  }
  head.resize(head_bytes + kCrcBytes);
  RETURN_IF_ERROR(ReadBytes(0, bytes(head)));
  head_crc_ = Crc32c(BytesOf(absl::string_view(head).substr(0, head_bytes)));
  if (head_crc_ != NumberAt<uint32_t>(head, head_bytes)) {
    return Damaged("its head does not match its checksum");
  }
  header_ = head.substr(kFixedHead, header);
  int64_t offset = head_bytes + kCrcBytes;
  int64_t blocks = 0;
  for (uint32_t array = 0; array < arrays; ++array) {
    const auto count = NumberAt<uint64_t>(head, kFixedHead + header + 8 * size_t{array});
    // So that what follows cannot overflow: a file is shorter than 2^62 bytes.
    if (count > kMostFloats || offset > there) return cut_off(offset + kTrailer);
    counts_.push_back(static_cast<int64_t>(count));
    offsets_.push_back(offset);
    first_.push_back(blocks);
    offset += BytesOf(counts_.back());
    blocks += BlocksOf(counts_.back());
  }
  const int64_t wanted = offset + kTrailer;
  if (there < wanted) {
    return absl::DataLossError(
        absl::StrCat(path_, " is truncated: it has ", there, " bytes of ", wanted));
  }
  if (there > wanted) {
    return Damaged(absl::StrCat("it has ", there, " bytes, and its head says ", wanted));
  }
  std::string trailer(kTrailer, '\0');
  RETURN_IF_ERROR(ReadBytes(offset, bytes(trailer)));
  sum_ = {.bytes = wanted, .crc = NumberAt<uint32_t>(trailer, 8)};
  if (trailer != Trailer(sum_)) return Damaged("its trailer is none");
  return absl::OkStatus();
}

absl::Status BlockFile::ReadBytes(int64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = pread(descriptor_, to.data(), to.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return absl::InternalError(
          absl::StrCat("cannot read ", path_, ": ", strerror(errno)));
    }
    if (got == 0) {
      return absl::DataLossError(
          absl::StrCat(path_, " is truncated: it ends at byte ", offset));
    }
    offset += got;
    to = to.subspan(static_cast<size_t>(got));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> BlockFile::ReadBlock(int array, int64_t block,
                                              std::span<float> to) const {
  constexpr int64_t kStride = kBlockFloats * int64_t{sizeof(float)} + kCrcBytes;
  const int64_t offset = offsets_[array] + block * kStride;
  uint32_t crc = 0;
  RETURN_IF_ERROR(ReadBytes(offset, std::as_writable_bytes(to)));
  RETURN_IF_ERROR(ReadBytes(offset + static_cast<int64_t>(to.size_bytes()),
                            std::as_writable_bytes(std::span(&crc, 1))));
  if (Crc32c(std::as_bytes(to)) == crc) return crc;
  return Damaged(absl::StrCat("block ", first_[array] + block, " (bytes ", offset, " to ",
                              offset + static_cast<int64_t>(to.size_bytes()) + kCrcBytes,
                              ") does not match its checksum"));
}

absl::Status BlockFile::Read(int array, int64_t begin, std::span<float> to) const {
  CHECK(begin >= 0 && begin + static_cast<int64_t>(to.size()) <= counts_[array]);
  std::vector<float> part;  // Of a block that is not wanted whole.
  while (!to.empty()) {
    const int64_t block = begin / kBlockFloats;
    const int64_t first = block * kBlockFloats;
    const int64_t whole = std::min(kBlockFloats, counts_[array] - first);
    const int64_t skipped = begin - first;
    const int64_t wanted = std::min(whole - skipped, static_cast<int64_t>(to.size()));
    if (wanted == whole) {
      RETURN_IF_ERROR(ReadBlock(array, block, to.first(wanted)).status());
    } else {
      part.resize(whole);
      RETURN_IF_ERROR(ReadBlock(array, block, part).status());
      std::copy_n(part.begin() + skipped, wanted, to.begin());
    }
    begin += wanted;
    to = to.subspan(wanted);
  }
  return absl::OkStatus();
}

absl::Status BlockFile::Verify(absl::FunctionRef<void(int64_t bytes)> read) const {
  uint32_t crc = Chain(head_crc_, 0);
  std::vector<float> floats;
  for (int array = 0; array < arrays(); ++array) {
    for (int64_t block = 0; block < BlocksOf(counts_[array]); ++block) {
      floats.resize(std::min(kBlockFloats, counts_[array] - block * kBlockFloats));
      ASSIGN_OR_RETURN(const uint32_t own, ReadBlock(array, block, floats));
      crc = Chain(own, crc);
      read(static_cast<int64_t>(floats.size() * sizeof(float)));
    }
  }
  if (crc == sum_.crc) return absl::OkStatus();
  return Damaged("its blocks are not those of its trailer");
}

absl::Status BlockFile::Damaged(absl::string_view what) const {
  return absl::DataLossError(absl::StrCat(path_, " is damaged: ", what));
}

}  // namespace psring
