// `psring export`.
#ifndef PSRING_EXPERIMENTS_EXPORT_H_
#define PSRING_EXPERIMENTS_EXPORT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "CLI/App.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace psring {

struct Exported {
  int64_t tables = 0;
  int64_t rows = 0;
};

// Writes every table of a run (experiments/run_file.h) into `folder`, as TABLE.csv, and
// their SQL as schema.sql. The folder is new or empty, and has all of it at once or
// nothing: it is written as a hidden one beside it, and renamed.
//
// The CSV is RFC 4180's but for its lines, which end with LF alone: first the columns'
// names; a field with a comma, a quote or a line break is in quotes. NULL is an empty
// field, an empty text is "". Floating-point numbers have up to 17 significant digits,
// which read back as the same ones. Rows are in the table's order.
//
// InvalidArgument: the folder is not empty, or not a folder. Internal: it cannot be
// written.
absl::StatusOr<Exported> ExportCsv(const std::string& run, const std::string& folder);

// Adds `export` to the program's commands. If it is the one that is asked for, parsing
// sets *chosen to what does it.
void AddExportCommand(CLI::App* app, std::function<absl::Status()>* chosen);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_EXPORT_H_
