#include "experiments/memory_table.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/memory_gauge.h"
#include "experiments/text.h"

namespace psring {
namespace {

// The most of one process, in each column.
struct Row {
  std::map<std::string, int64_t> shown;  // By purpose.
  int64_t other = 0;
  int64_t budget = 0;
  int64_t resident = 0;
};

constexpr const char* kShown[] = {memory_purpose::kParameters, memory_purpose::kGradients,
                                  memory_purpose::kOptimizerState};

Row RowOf(const std::string& role, const std::vector<ProcessMemory>& processes) {
  Row row;
  for (const ProcessMemory& process : processes) {
    if (process.role != role) continue;
    int64_t other = 0;
    int64_t budget = 0;
    for (const MemoryUse& use : process.uses) {
      budget += use.budget.value_or(0);
      if (std::find(std::begin(kShown), std::end(kShown), use.purpose) ==
          std::end(kShown)) {
        other += use.bytes;
      } else {
        row.shown[use.purpose] = std::max(row.shown[use.purpose], use.bytes);
      }
    }
    row.other = std::max(row.other, other);
    row.budget = std::max(row.budget, budget);
    row.resident = std::max(row.resident, process.resident.value_or(0));
  }
  return row;
}

}  // namespace

std::string MemoryTable(const std::vector<ArmRuns>& arms) {
  std::vector<std::vector<std::string>> rows;
  for (const ArmRuns& runs : arms) {
    const ArmResult& arm = runs.first();
    if (arm.memory_use.empty()) continue;
    for (const char* role : {"worker", "server"}) {
      if (role == std::string("server") && arm.servers == 0) continue;
      const Row row = RowOf(role, arm.memory_use);
      std::vector<std::string>& cells = rows.emplace_back();
      cells.push_back(absl::StrCat(arm.name, " / ", role));
      for (const char* purpose : kShown) {
        const auto found = row.shown.find(purpose);
        cells.push_back(WithThousands(found == row.shown.end() ? 0 : found->second));
      }
      for (const int64_t bytes : {row.other, row.budget, row.resident}) {
        cells.push_back(WithThousands(bytes));
      }
    }
  }
  if (rows.empty()) return "";
  return FormatTable({"memory in bytes, at most", "parameters", "gradients",
                      "optimizer state", "other", "budget of these", "resident"},
                     rows);
}

}  // namespace psring
