// Where a run keeps what it was and what came of it.
#ifndef PSRING_EXPERIMENTS_RUN_FOLDER_H_
#define PSRING_EXPERIMENTS_RUN_FOLDER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace psring {

// A folder of one run: config.textproto, environment.json, run.db, summary.json,
// logs/ARM/, checkpoints/ARM/.
class RunFolder {
 public:
  // `out`, or runs/NAME-TIME where it is empty. InvalidArgument: it exists and is not
  // empty, or cannot be made.
  static absl::StatusOr<RunFolder> Create(const std::string& out,
                                          const std::string& experiment);

  const std::string& path() const { return path_; }

  // Writes a whole file, replacing one of that name at once or not at all.
  absl::Status Write(absl::string_view name, absl::string_view content) const;

  // Makes checkpoints/ and returns its absolute path, for processes that run elsewhere.
  absl::StatusOr<std::string> MakeCheckpointFolder() const;

  // Makes logs/ARM and returns its path.
  absl::StatusOr<std::string> MakeLogFolder(const std::string& arm) const;

 private:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_RUN_FOLDER_H_
