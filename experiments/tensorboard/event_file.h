// Files that TensorBoard reads.
#ifndef PSRING_EXPERIMENTS_TENSORBOARD_EVENT_FILE_H_
#define PSRING_EXPERIMENTS_TENSORBOARD_EVENT_FILE_H_

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace psring {

// A record of the TFRecord format: 8 bytes of length, 4 of its checksum, the data, 4 of
// its checksum, numbers little-endian. Pure.
std::string FramedRecord(absl::string_view data);

// The checksums of that format: CRC-32C, turned by 15 bits to the right, plus 0xa282ead8.
uint32_t MaskedCrc32c(absl::string_view data);

// One file, written as its events come. One thread at a time.
class EventFile {
 public:
  // A new one in `folder`, which exists, called as TensorBoard wants it:
  // events.out.tfevents.SECONDS.HOST, where SECONDS is the first number from `time` on
  // that no file there has. kInternal: cannot be written.
  static absl::StatusOr<std::unique_ptr<EventFile>> Create(const std::string& folder,
                                                           absl::Time time,
                                                           const std::string& host);

  using Scalars = std::vector<std::pair<std::string, double>>;  // Tag, value.
  void Add(absl::Time time, int64_t step, const Scalars& scalars);
  // Hands what was added to the system, so that readers see it. The first error.
  absl::Status Flush();

  const std::string& path() const { return path_; }

 private:
  explicit EventFile(std::string path);

  const std::string path_;
  std::ofstream out_;
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_TENSORBOARD_EVENT_FILE_H_
