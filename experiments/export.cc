#include "experiments/export.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "experiments/run_file.h"
#include "experiments/sqlite.h"
#include "experiments/text.h"

namespace psring {
namespace {

namespace fs = std::filesystem;

absl::Status CannotWrite(const std::string& path, absl::string_view why) {
  return absl::InternalError(absl::StrCat("cannot write ", path, ": ", why));
}

// A file that is written from its beginning to its end.
class OutputFile {
 public:
  static absl::StatusOr<OutputFile> Create(std::string path) {
    std::FILE* const file = std::fopen(path.c_str(), "wb");
    if (file == nullptr) return CannotWrite(path, strerror(errno));
    return OutputFile(std::move(path), file);
  }

  absl::Status Write(absl::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size()) {
      return absl::OkStatus();
    }
    return CannotWrite(path_, strerror(errno));
  }

  absl::Status Close() {
    if (std::fclose(file_.release()) == 0) return absl::OkStatus();
    return CannotWrite(path_, strerror(errno));
  }

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  OutputFile(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}

  std::string path_;
  std::unique_ptr<std::FILE, CloseFile> file_;
};

// A folder that is filled under a hidden name beside its own; what is not renamed goes
// with the object.
class NewFolder {
 public:
  static absl::StatusOr<NewFolder> Begin(const std::string& folder) {
    std::error_code error;
    fs::path path = fs::path(folder).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();  // "out/" is out.
    const auto refuse = [&](absl::string_view why) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot use the output folder ", folder, ": ", why));
    };
    if (!path.has_filename() || path.filename() == "." || path.filename() == "..") {
      return refuse("it has no name; allowed: a new or an empty folder");
    }
    if (fs::exists(path, error)) {
      const bool empty = fs::is_directory(path, error) && fs::is_empty(path, error);
      if (error) return refuse(error.message());
      if (!empty) return refuse("it is not empty; allowed: a new or an empty folder");
    }
    if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
    if (error) return refuse(error.message());
    std::string hidden =
        (path.parent_path() / absl::StrCat(".", path.filename().string(), ".XXXXXX"))
            .string();
    if (mkdtemp(hidden.data()) == nullptr) return refuse(strerror(errno));
    return NewFolder(path.string(), std::move(hidden));
  }
  ~NewFolder() {
    std::error_code ignored;
    if (!hidden_.empty()) fs::remove_all(hidden_, ignored);
  }
  NewFolder(NewFolder&& other) noexcept
      : path_(std::move(other.path_)), hidden_(std::exchange(other.hidden_, "")) {}
  NewFolder& operator=(NewFolder&&) = delete;

  std::string Path(absl::string_view name) const {
    return absl::StrCat(hidden_, "/", name);
  }

  absl::Status Finish() {
    // As any new folder, and not for its owner alone.
    const mode_t mask = umask(0);
    umask(mask);
    // In place of an empty folder, too.
    if (chmod(hidden_.c_str(), 0777 & ~mask) != 0 ||
        std::rename(hidden_.c_str(), path_.c_str()) != 0) {
      return CannotWrite(path_, strerror(errno));
    }
    hidden_.clear();
    return absl::OkStatus();
  }

 private:
  NewFolder(std::string path, std::string hidden)
      : path_(std::move(path)), hidden_(std::move(hidden)) {}

  std::string path_;
  std::string hidden_;  // Empty: it is no longer this object's to remove.
};

std::string Field(const std::string& text) {
  if (!text.empty() && text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

// For SQL; also with a quote in it.
std::string Quoted(const std::string& name) {
  return absl::StrCat("\"", absl::StrReplaceAll(name, {{"\"", "\"\""}}), "\"");
}

// The first column of what the query gives.
absl::StatusOr<std::vector<std::string>> Texts(
    SqliteConnection& connection, const std::string& sql,
    std::initializer_list<SqliteValue> values) {
  ASSIGN_OR_RETURN(SqliteStatement row, connection.Prepare(sql));
  RETURN_IF_ERROR(row.Bind(values));
  std::vector<std::string> texts;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, row.Next());
    if (!more) return texts;
    texts.push_back(row.Text(0));
  }
}

// The number of rows that the table has.
absl::StatusOr<int64_t> WriteTable(SqliteConnection& connection, const std::string& table,
                                   const std::string& path) {
  ASSIGN_OR_RETURN(const std::vector<std::string> columns,
                   Texts(connection, "SELECT name FROM pragma_table_info(?)", {table}));
  // Each value is followed by what it is.
  std::vector<std::string> selected, header;
  for (const std::string& column : columns) {
    selected.push_back(absl::StrCat(Quoted(column), ", typeof(", Quoted(column), ")"));
    header.push_back(Field(column));
  }
  ASSIGN_OR_RETURN(SqliteStatement row, connection.Prepare(absl::StrCat(
                                            "SELECT ", absl::StrJoin(selected, ", "),
                                            " FROM ", Quoted(table))));
  ASSIGN_OR_RETURN(OutputFile file, OutputFile::Create(path));
  std::string line = absl::StrCat(absl::StrJoin(header, ","), "\n");
  for (int64_t rows = 0;; ++rows) {
    RETURN_IF_ERROR(file.Write(line));
    ASSIGN_OR_RETURN(const bool more, row.Next());
    if (!more) {
      RETURN_IF_ERROR(file.Close());
      return rows;
    }
    line.clear();
    for (int column = 0; column < static_cast<int>(columns.size()); ++column) {
      if (column > 0) line.push_back(',');
      if (row.IsNull(2 * column)) continue;
      if (row.Text(2 * column + 1) == "real") {
        absl::StrAppendFormat(&line, "%.17g", row.Real(2 * column));
      } else {
        line.append(Field(row.Text(2 * column)));
      }
    }
    line.push_back('\n');
  }
}

}  // namespace

absl::StatusOr<Exported> ExportCsv(const std::string& run, const std::string& folder) {
  ASSIGN_OR_RETURN(const std::unique_ptr<SqliteConnection> connection, OpenRun(run));
  ASSIGN_OR_RETURN(NewFolder output, NewFolder::Begin(folder));
  ASSIGN_OR_RETURN(const std::vector<std::string> tables,
                   Texts(*connection,
                         "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY "
                         "rowid",
                         {}));
  Exported exported;
  for (const std::string& table : tables) {
    ASSIGN_OR_RETURN(
        const int64_t rows,
        WriteTable(*connection, table, output.Path(absl::StrCat(table, ".csv"))));
    ++exported.tables;
    exported.rows += rows;
  }
  ASSIGN_OR_RETURN(
      const std::vector<std::string> statements,
      Texts(*connection,
            "SELECT sql || ';' FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid",
            {}));
  ASSIGN_OR_RETURN(OutputFile schema, OutputFile::Create(output.Path("schema.sql")));
  RETURN_IF_ERROR(schema.Write(absl::StrCat(absl::StrJoin(statements, "\n"), "\n")));
  RETURN_IF_ERROR(schema.Close());
  RETURN_IF_ERROR(output.Finish());
  return exported;
}

void AddExportCommand(CLI::App* app, std::function<absl::Status()>* chosen) {
  struct Options {
    std::string run;
    std::string csv;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app->add_subcommand("export", "Writes all records of a run as CSV files");
  command->add_option("run", options->run, "Run folder, or its run.db")->required();
  command
      ->add_option("--csv", options->csv,
                   "Folder, new or empty, for a CSV file of each table")
      ->required();
  command->callback([=] {
    *chosen = [=]() -> absl::Status {
      ASSIGN_OR_RETURN(const Exported exported, ExportCsv(options->run, options->csv));
      std::cerr << "wrote " << exported.tables << " tables with "
                << WithThousands(exported.rows) << " rows to " << options->csv
                << std::endl;
      return absl::OkStatus();
    };
  });
}

}  // namespace psring
