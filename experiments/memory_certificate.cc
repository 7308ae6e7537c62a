#include "experiments/memory_certificate.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/memory_gauge.h"
#include "experiments/memory_budget.h"
#include "experiments/text.h"

namespace psring {
namespace {

bool IsKept(const MemoryUse& use) {
  return use.budget && (use.exact ? use.bytes == *use.budget : use.bytes <= *use.budget);
}

std::string Describe(const std::string& process, const MemoryUse& use) {
  const std::string has = absl::StrCat(process, " has had ", WithThousands(use.bytes),
                                       " bytes of ", use.purpose);
  if (!use.budget) return absl::StrCat(has, ", for which there is no budget");
  return absl::StrCat(has, ", its budget is ", use.exact ? "" : "at most ",
                      WithThousands(*use.budget));
}

}  // namespace

std::vector<ProcessMemory> MemoryOf(const JobSpec& spec, const JobPlan& plan,
                                    const ArmRecords& records) {
  std::vector<ProcessMemory> processes;
  for (const ProcessBudget& budget : MemoryBudget(spec, plan)) {
    ProcessMemory& process = processes.emplace_back();
    process.name = budget.name;
    process.role = budget.role;
    const auto found = records.memory.find(budget.name);
    process.reported = found != records.memory.end();
    std::map<std::string, int64_t> left;
    if (process.reported) left = found->second;
    const auto take = [&left](const std::string& purpose) -> std::optional<int64_t> {
      const auto node = left.extract(purpose);
      return node.empty() ? std::nullopt : std::optional(node.mapped());
    };
    process.resident = take(memory_purpose::kResident);
    for (const PurposeBudget& purpose : budget.purposes) {
      process.uses.push_back({.purpose = purpose.purpose,
                              .bytes = take(purpose.purpose).value_or(0),
                              .budget = purpose.bytes,
                              .exact = purpose.exact});
    }
    for (const auto& [purpose, bytes] : left) {
      process.uses.push_back({.purpose = purpose, .bytes = bytes});
    }
  }
  return processes;
}

Certificate CertifyMemory(const std::vector<ProcessMemory>& processes) {
  std::map<std::string, std::pair<std::string, MemoryUse>> bounded;  // The most of each.
  std::vector<std::string> exact;
  for (const ProcessMemory& process : processes) {
    if (!process.reported) {
      return {.verdict = Verdict::kFail,
              .why = absl::StrCat(process.name, " did not report its memory")};
    }
    for (const MemoryUse& use : process.uses) {
      if (!IsKept(use)) {
        return {.verdict = Verdict::kFail, .why = Describe(process.name, use)};
      }
      if (use.exact) {
        if (std::find(exact.begin(), exact.end(), use.purpose) == exact.end()) {
          exact.push_back(use.purpose);
        }
        continue;
      }
      const auto [most, is_new] = bounded.try_emplace(use.purpose, process.name, use);
      if (!is_new && use.bytes > most->second.second.bytes) {
        most->second = {process.name, use};
      }
    }
  }
  std::string why =
      absl::StrCat(absl::StrJoin(exact, ", "), " equal the budget in every process");
  for (const auto& [purpose, most] : bounded) {
    absl::StrAppend(&why, "; ", Describe(most.first, most.second));
  }
  return {.verdict = Verdict::kPass, .why = why};
}

}  // namespace psring
