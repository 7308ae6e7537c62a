// A file of float arrays in checked blocks: damage is found before a float is used, and
// any part is read without the rest.
#ifndef PSRING_COMMON_BLOCK_FILE_H_
#define PSRING_COMMON_BLOCK_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace psring {

// Numbers are little-endian, floats as IEEE 754 has them; crc is CRC-32C.
//
//   head      "psringCP", u32 format (1), u32 bytes of the header, u32 number of arrays,
//             the header (anything), u64 length of each array in floats, u32 crc of all
//             this
//   blocks    array after array: up to 1 MiB of its floats, u32 crc of them
//   trailer   u64 bytes of the file, u32 crc of all crcs in their order, "CP\r\n"
//
// The head says how long the file must be, so that one that was cut off is known at once;
// the trailer's crc depends on every byte and on the order of blocks, and names the
// content in what refers to the file.
inline constexpr int64_t kBlockFloats = (1 << 20) / sizeof(float);

struct BlockFileSum {
  int64_t bytes = 0;
  uint32_t crc = 0;  // The trailer's.

  friend bool operator==(const BlockFileSum&, const BlockFileSum&) = default;
};

// Writes the whole file beside `path`, has the system put it on its disk, and only then
// gives it that name, in place of one that has it. Whenever this is interrupted, `path`
// is what it was or all of the new. The arrays are written from where they are; `wrote`
// is told of bytes as they are written. Internal: the system refused, and why, by name.
absl::StatusOr<BlockFileSum> WriteBlockFile(
    const std::string& path, absl::string_view header,
    const std::vector<std::span<const float>>& arrays,
    absl::FunctionRef<void(int64_t bytes)> wrote);

// What Open has read of a file. Reading from several threads at a time is fine.
//
// Errors name the file. NotFound: there is none; DataLoss: it is cut off or damaged, and
// where; Internal: it cannot be read.
class BlockFile {
 public:
  // Checks length, head and trailer.
  static absl::StatusOr<BlockFile> Open(const std::string& path);
  BlockFile(BlockFile&& other) noexcept;
  BlockFile& operator=(BlockFile&&) = delete;
  ~BlockFile();

  const std::string& header() const { return header_; }
  int arrays() const { return static_cast<int>(counts_.size()); }
  int64_t count(int array) const { return counts_[array]; }
  const BlockFileSum& sum() const { return sum_; }

  // Floats of an array from `begin` on, which are part of it, from blocks that have been
  // checked. After an error `to` is anything.
  absl::Status Read(int array, int64_t begin, std::span<float> to) const;

  // Checks every block, and that they are those of the trailer. `read` is told of bytes.
  absl::Status Verify(absl::FunctionRef<void(int64_t bytes)> read) const;

 private:
  BlockFile(std::string path, int descriptor);

  absl::Status ReadHead();
  absl::Status ReadBytes(int64_t offset, std::span<std::byte> to) const;
  // Reads a block, of which `to` is all, and checks it; the result is its crc.
  absl::StatusOr<uint32_t> ReadBlock(int array, int64_t block, std::span<float> to) const;
  absl::Status Damaged(absl::string_view what) const;

  const std::string path_;
  int descriptor_;
  std::string header_;
  std::vector<int64_t> counts_;   // By array.
  std::vector<int64_t> offsets_;  // By array: of its first block.
  std::vector<int64_t> first_;    // By array: how many blocks come before.
  uint32_t head_crc_ = 0;
  BlockFileSum sum_;
};

}  // namespace psring

#endif  // PSRING_COMMON_BLOCK_FILE_H_
