#include "experiments/run_folder.h"

#include <errno.h>
#include <string.h>

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace psring {
namespace {

namespace fs = std::filesystem;

absl::Status CannotWrite(const std::string& path, absl::string_view why) {
  return absl::InternalError(absl::StrCat("cannot write ", path, ": ", why));
}

}  // namespace

absl::StatusOr<RunFolder> RunFolder::Create(const std::string& out,
                                            const std::string& experiment) {
  std::string path = out;
  std::error_code error;
  if (path.empty()) {
    const std::string stem = absl::StrCat(
        "runs/", experiment, "-",
        absl::FormatTime("%Y%m%d-%H%M%S", absl::Now(), absl::LocalTimeZone()));
    path = stem;
    for (int more = 2; fs::exists(path, error); ++more) {
      path = absl::StrCat(stem, "-", more);
    }
  }
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot use the output folder ", path, ": ", why));
  };
  fs::create_directories(path, error);
  if (error) return refuse(error.message());
  const bool empty = fs::is_empty(path, error);
  if (error) return refuse(error.message());
  if (!empty) return refuse("it is not empty; allowed: a new or an empty folder");
  return RunFolder(path);
}

absl::Status RunFolder::Write(absl::string_view name, absl::string_view content) const {
  const std::string path = absl::StrCat(path_, "/", name);
  const std::string beside = absl::StrCat(path, ".new");
  std::FILE* file = std::fopen(beside.c_str(), "w");
  if (file == nullptr) return CannotWrite(path, strerror(errno));
  bool written = std::fwrite(content.data(), 1, content.size(), file) == content.size();
  int failure = errno;
  if (std::fclose(file) != 0) {
    if (written) failure = errno;
    written = false;
  }
  if (!written) {
    std::remove(beside.c_str());
    return CannotWrite(path, strerror(failure));
  }
  if (std::rename(beside.c_str(), path.c_str()) != 0) {
    failure = errno;
    std::remove(beside.c_str());
    return CannotWrite(path, strerror(failure));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> RunFolder::MakeCheckpointFolder() const {
  std::error_code error;
  const fs::path path = fs::absolute(absl::StrCat(path_, "/checkpoints"), error);
  if (!error) fs::create_directories(path, error);
  if (error) return CannotWrite(path.string(), error.message());
  return path.string();
}

absl::StatusOr<std::string> RunFolder::MakeLogFolder(const std::string& arm) const {
  const std::string path = absl::StrCat(path_, "/logs/", arm);
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return CannotWrite(path, error.message());
  return path;
}

}  // namespace psring
