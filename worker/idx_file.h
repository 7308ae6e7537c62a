// Files in the IDX format of the MNIST family: a header of big-endian sizes, then one
// byte per value, the last dimension fastest; usually compressed with gzip.
//
// A file that does not keep to the format is InvalidArgument, a missing one NotFound,
// each as "FILE: what is wrong: expected X, found Y".
#ifndef PSRING_WORKER_IDX_FILE_H_
#define PSRING_WORKER_IDX_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace psring {

struct IdxHeader {
  // Number of samples, then the sizes of one sample. All at least 1, and their product
  // fits in 63 bits; whether the file is that long only ReadIdxFile knows.
  std::vector<int64_t> sizes;

  int64_t samples() const { return sizes[0]; }
};

struct IdxFile {
  IdxHeader header;
  std::vector<uint8_t> values;  // As many as the product of the header's sizes.
};

// Reads the header of a file of unsigned bytes with so many dimensions (1: labels, magic
// number 0x00000801; 3: images, 0x00000803), and nothing behind it.
absl::StatusOr<IdxHeader> ReadIdxHeader(const std::string& path, int dimensions);

// Reads the whole file and, where it is gzip, checks its checksum. Memory is bounded by
// what the file holds, whatever its header claims.
absl::StatusOr<IdxFile> ReadIdxFile(const std::string& path, int dimensions);

}  // namespace psring

#endif  // PSRING_WORKER_IDX_FILE_H_
