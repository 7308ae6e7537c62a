#include "experiments/bench/outputs.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "experiments/algorithm_table.h"
#include "experiments/bench/fastest.h"
#include "experiments/bench/files.h"

namespace psring {
namespace {

// The table in whose place the measured one is to be written, if any: what the file has
// already, which is nothing where there is none.
absl::StatusOr<AlgorithmTable> TableToUpdate(const BenchOptions& options) {
  AlgorithmTable table;
  if (options.table_path.empty()) return table;
  const auto has_other_than = [](const std::vector<std::string>& values,
                                 absl::string_view value) {
    return std::any_of(values.begin(), values.end(),
                       [&](const std::string& other) { return other != value; });
  };
  if (!has_other_than(options.algorithms, "auto") ||
      !has_other_than(options.transports, "shared_memory")) {
    return absl::InvalidArgumentError(
        "--write-table: there is nothing to choose from; it needs other algorithms than "
        "auto, over tcp or grpc");
  }
  std::ifstream file(options.table_path);
  if (!file) return table;
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return ReadAlgorithmTable(text, options.table_path);
}

}  // namespace

absl::StatusOr<BenchOutputs> BenchOutputs::Prepare(const BenchOptions& options) {
  ASSIGN_OR_RETURN(AlgorithmTable table, TableToUpdate(options));
  RETURN_IF_ERROR(CheckWritable("--json", options.json_path));
  RETURN_IF_ERROR(CheckWritable("--csv", options.csv_path));
  RETURN_IF_ERROR(CheckWritable("--write-table", options.table_path));
  return BenchOutputs(options, std::move(table));
}

absl::Status BenchOutputs::Write(const BenchContext& context,
                                 const std::vector<BenchRow>& rows,
                                 const std::string& first_wrong) {
  absl::Status written = WriteFile(json_path_, BenchJson(context, rows));
  written.Update(WriteFile(csv_path_, BenchCsv(rows)));
  RETURN_IF_ERROR(Conclude(written, first_wrong));
  UpdateTable(FastestAlgorithms(rows, context.ranks), &table_);
  return WriteFile(table_path_, PrintAlgorithmTable(table_));
}

}  // namespace psring
