// Files of a benchmark: those that are asked for, and a folder for its own.
#ifndef PSRING_EXPERIMENTS_BENCH_FILES_H_
#define PSRING_EXPERIMENTS_BENCH_FILES_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace psring {

// Finds out whether the file that the flag names can be written, and does not change it.
// OK for an empty path, which stands for none. kInvalidArgument: it cannot.
absl::Status CheckWritable(absl::string_view flag, const std::string& path);

// Nothing where the path is empty. kInternal: it cannot be written.
absl::Status WriteFile(const std::string& path, const std::string& text);

// What a benchmark returns that has run to its end: `written`, of its files, unless
// `first_wrong` names a wrong result, which is kDataLoss, exit code kCheckFailed.
absl::Status Conclude(const absl::Status& written, const std::string& first_wrong);

// A new folder below the system's for temporary files, which goes with the object.
class BenchFolder {
 public:
  // kInternal: it cannot be made.
  static absl::StatusOr<BenchFolder> Make();
  ~BenchFolder();
  BenchFolder(BenchFolder&& other) noexcept
      : path_(std::exchange(other.path_, std::string())) {}
  BenchFolder& operator=(BenchFolder&&) = delete;

  const std::string& path() const { return path_; }

  // What a benchmark returns that has ended so: the folder stays after a failure, for the
  // logs in it, and the message says where; unless somebody wanted the end.
  absl::Status End(const absl::Status& status);

 private:
  explicit BenchFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;  // Empty: it is no longer this object's to remove.
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_FILES_H_
