#include "experiments/bench/files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/errors.h"

namespace psring {

absl::Status CheckWritable(absl::string_view flag, const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  std::error_code error;
  const bool was_there = std::filesystem::exists(path, error);
  errno = 0;
  if (!std::ofstream(path, std::ios::app)) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " ", path, ": cannot be written: ", strerror(errno)));
  }
  if (!was_there) std::filesystem::remove(path, error);
  return absl::OkStatus();
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  if (path.empty()) return absl::OkStatus();
  std::ofstream file(path);
  file << text << std::flush;
  return file ? absl::OkStatus()
              : absl::InternalError(absl::StrCat("cannot write ", path));
}

absl::Status Conclude(const absl::Status& written, const std::string& first_wrong) {
  if (first_wrong.empty()) return written;
  return CheckFailedError(
      absl::StrCat(first_wrong, written.ok() ? "" : "; and ", written.message()));
}

absl::StatusOr<BenchFolder> BenchFolder::Make() {
  std::string path =
      (std::filesystem::temp_directory_path() / "psring-bench-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) {
    return absl::InternalError(absl::StrCat("cannot make the folder ", path));
  }
  return BenchFolder(std::move(path));
}

BenchFolder::~BenchFolder() {
  std::error_code error;
  if (!path_.empty()) std::filesystem::remove_all(path_, error);
}

absl::Status BenchFolder::End(const absl::Status& status) {
  if (status.ok() || absl::IsCancelled(status)) return status;
  return Annotate(status, absl::StrCat("logs in ", std::exchange(path_, std::string())));
}

}  // namespace psring
