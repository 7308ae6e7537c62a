#include "experiments/run_file.h"

#include <cstdint>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/status_macros.h"
#include "experiments/run_schema.h"

namespace psring {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<std::unique_ptr<SqliteConnection>> OpenFile(const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<SqliteConnection> connection,
                   SqliteConnection::OpenReadOnly(path));
  // A transaction sees the moment of its first read, and no later one.
  RETURN_IF_ERROR(connection->Execute("BEGIN"));
  ASSIGN_OR_RETURN(SqliteStatement version, connection->Prepare("PRAGMA user_version"));
  RETURN_IF_ERROR(version.Next().status());
  const int64_t found = version.Integer(0);
  ASSIGN_OR_RETURN(
      SqliteStatement tables,
      connection->Prepare("SELECT count(*) FROM sqlite_master WHERE name = 'runs'"));
  RETURN_IF_ERROR(tables.Next().status());
  if (tables.Integer(0) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read ", path, ": it is no run database"));
  }
  if (found != kRunSchemaVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read ", path, ": its schema has version ", found,
                     ", this program reads ", kRunSchemaVersion));
  }
  return connection;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteConnection>> OpenRun(const std::string& run) {
  std::error_code error;
  const bool folder = fs::is_directory(run, error);
  const std::string path = folder ? (fs::path(run) / "run.db").string() : run;
  if (!fs::exists(path, error)) {
    return absl::NotFoundError(
        folder ? absl::StrCat(run, " is no run folder: there is no run.db in it")
               : absl::StrCat(run, ": there is no such run folder or run.db"));
  }
  absl::StatusOr<std::unique_ptr<SqliteConnection>> opened = OpenFile(path);
  if (!opened.ok()) return WithExitCode(opened.status(), ExitCode::kUsage);
  return opened;
}

}  // namespace psring
