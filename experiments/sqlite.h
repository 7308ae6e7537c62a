// SQLite's C interface as objects that end by themselves, and errors as absl::Status.
#ifndef PSRING_EXPERIMENTS_SQLITE_H_
#define PSRING_EXPERIMENTS_SQLITE_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

struct sqlite3;
struct sqlite3_stmt;

namespace psring {

// NULL, INTEGER, REAL or TEXT. SQLite has no not-a-number: it is stored as NULL.
using SqliteValue = std::variant<std::nullptr_t, int64_t, double, absl::string_view>;

// Errors are kInternal (or kResourceExhausted where the disk is full) and say what cannot
// be done with which file and why.
class SqliteStatement {
 public:
  // Starts the statement anew with these values for its parameters, in order.
  absl::Status Bind(std::initializer_list<SqliteValue> values);
  // The next row of the result; false: there is no more.
  absl::StatusOr<bool> Next();
  // For statements without a result: Bind and Next.
  absl::Status Execute(std::initializer_list<SqliteValue> values);

  // Of the current row; columns count from 0.
  bool IsNull(int column) const;
  int64_t Integer(int column) const;
  double Real(int column) const;
  std::string Text(int column) const;

 private:
  friend class SqliteConnection;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  SqliteStatement(sqlite3_stmt* statement, const class SqliteConnection* connection)
      : connection_(connection), statement_(statement) {}

  const SqliteConnection* connection_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

// One connection to a file, used by one thread at a time; outlives its statements, and
// stays where it is.
class SqliteConnection {
 public:
  // Makes the file where there is none.
  static absl::StatusOr<std::unique_ptr<SqliteConnection>> Open(const std::string& path);
  // While another process or thread writes it, too.
  static absl::StatusOr<std::unique_ptr<SqliteConnection>> OpenReadOnly(
      const std::string& path);

  const std::string& path() const { return path_; }

  // Any number of statements without results and parameters.
  absl::Status Execute(const std::string& sql);
  absl::StatusOr<SqliteStatement> Prepare(absl::string_view sql);

 private:
  friend class SqliteStatement;
  struct Close {
    void operator()(sqlite3* connection) const;
  };
  SqliteConnection(std::string path, std::string action)
      : path_(std::move(path)), action_(std::move(action)) {}
  static absl::StatusOr<std::unique_ptr<SqliteConnection>> Open(const std::string& path,
                                                                std::string action,
                                                                int flags);
  absl::Status Error(int code) const;

  const std::string path_;
  const std::string action_;  // "write", "read": what an error says cannot be done.
  std::unique_ptr<sqlite3, Close> connection_;
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_SQLITE_H_
