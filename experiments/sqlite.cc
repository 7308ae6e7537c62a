#include "experiments/sqlite.h"

#include <sqlite3.h>
#include <string.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace psring {
namespace {

// How long to wait for another connection that holds a lock on the file.
constexpr int kBusyTimeoutMs = 5000;

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
// clang 14 does not deduce it by itself.
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace

void SqliteStatement::Finalize::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);  // Its result repeats the last Next's.
}

absl::Status SqliteStatement::Bind(std::initializer_list<SqliteValue> values) {
  sqlite3_stmt* const statement = statement_.get();
  sqlite3_reset(statement);  // Its result repeats the last Next's.
  int index = 0;
  for (const SqliteValue& value : values) {
    ++index;
    const int code = std::visit(
        Overloaded{[&](std::nullptr_t) { return sqlite3_bind_null(statement, index); },
                   [&](int64_t v) { return sqlite3_bind_int64(statement, index, v); },
                   [&](double v) { return sqlite3_bind_double(statement, index, v); },
                   [&](absl::string_view v) {
                     // A null pointer would mean NULL, not an empty text.
                     return sqlite3_bind_text(statement, index, v.empty() ? "" : v.data(),
                                              static_cast<int>(v.size()),
                                              SQLITE_TRANSIENT);
                   }},
        value);
    if (code != SQLITE_OK) return connection_->Error(code);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> SqliteStatement::Next() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return connection_->Error(code);
}

absl::Status SqliteStatement::Execute(std::initializer_list<SqliteValue> values) {
  RETURN_IF_ERROR(Bind(values));
  return Next().status();
}

bool SqliteStatement::IsNull(int column) const {
  return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
}

int64_t SqliteStatement::Integer(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

double SqliteStatement::Real(int column) const {
  return sqlite3_column_double(statement_.get(), column);
}

std::string SqliteStatement::Text(int column) const {
  const unsigned char* const text = sqlite3_column_text(statement_.get(), column);
  if (text == nullptr) return "";
  return std::string(reinterpret_cast<const char*>(text),
                     static_cast<size_t>(sqlite3_column_bytes(statement_.get(), column)));
}

void SqliteConnection::Close::operator()(sqlite3* connection) const {
  sqlite3_close_v2(connection);
}

absl::StatusOr<std::unique_ptr<SqliteConnection>> SqliteConnection::Open(
    const std::string& path) {
  return Open(path, "write", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
}

absl::StatusOr<std::unique_ptr<SqliteConnection>> SqliteConnection::OpenReadOnly(
    const std::string& path) {
  return Open(path, "read", SQLITE_OPEN_READONLY);
}

absl::StatusOr<std::unique_ptr<SqliteConnection>> SqliteConnection::Open(
    const std::string& path, std::string action, int flags) {
  std::unique_ptr<SqliteConnection> opened(new SqliteConnection(path, std::move(action)));
  sqlite3* connection = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &connection, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  opened->connection_.reset(connection);  // There is one even then, for its error.
  if (code != SQLITE_OK) return opened->Error(code);
  sqlite3_extended_result_codes(connection, 1);
  sqlite3_busy_timeout(connection, kBusyTimeoutMs);
  return opened;
}

absl::Status SqliteConnection::Execute(const std::string& sql) {
  const int code =
      sqlite3_exec(connection_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code);
}

absl::StatusOr<SqliteStatement> SqliteConnection::Prepare(absl::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  const int code =
      sqlite3_prepare_v3(connection_.get(), sql.data(), static_cast<int>(sql.size()),
                         SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return Error(code);
  return SqliteStatement(statement, this);
}

absl::Status SqliteConnection::Error(int code) const {
  std::string message = absl::StrCat(
      "cannot ", action_, " ", path_, ": ",
      connection_ != nullptr ? sqlite3_errmsg(connection_.get()) : sqlite3_errstr(code));
  const int primary = code & 0xff;
  // What the system said, where it was asked.
  const int system = sqlite3_system_errno(connection_.get());
  if (system != 0 && (primary == SQLITE_IOERR || primary == SQLITE_CANTOPEN)) {
    absl::StrAppend(&message, " (", strerror(system), ")");
  }
  return primary == SQLITE_FULL ? absl::ResourceExhaustedError(message)
                                : absl::InternalError(message);
}

}  // namespace psring
