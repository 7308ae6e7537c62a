#include "common/cuda/kernel_budget.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <regex>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace psring {
namespace {

// "psring::RunKernel<psring::ElementwiseKernel<psring::AddBias> >" and its parameters,
// of which the name is what is between the outer < and >.
std::string NameOf(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
  if (status != 0) return symbol;
  std::string name(demangled.get());
  name = name.substr(0, name.find('('));
  name = absl::StrReplaceAll(name, {{"void ", ""}, {"psring::", ""}, {" ", ""}});
  absl::string_view inner = name;
  if (absl::ConsumePrefix(&inner, "RunKernel<") && absl::ConsumeSuffix(&inner, ">")) {
    return std::string(inner);
  }
  return name;
}

absl::Status WrongLine(const char* what, int line, const std::string& text) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, ", line ", line, ": \"", text, "\""));
}

}  // namespace

absl::StatusOr<std::vector<KernelUsage>> ParseUsage(const std::string& text) {
  static constexpr char kWhat[] = "output of nvcc -Xptxas -v";
  const std::regex entry("ptxas info +: Compiling entry function '(\\S+)' for '(\\w+)'");
  const std::regex memory(
      " *(\\d+) bytes stack frame, (\\d+) bytes spill stores, (\\d+) bytes spill loads");
  const std::regex registers("ptxas info +: Used (\\d+) registers.*");
  std::vector<KernelUsage> usage;
  std::optional<KernelUsage> kernel;  // That which is being read.
  bool has_memory = false;
  int line_number = 0;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    ++line_number;
    std::smatch match;
    if (std::regex_match(line, match, entry)) {
      if (kernel) return WrongLine(kWhat, line_number, line);
      kernel = KernelUsage{.kernel = NameOf(match[1]), .architecture = match[2]};
      has_memory = false;
    } else if (std::regex_match(line, match, memory)) {
      // A second one is that of a function that is not inlined, which ours all are.
      if (!kernel || has_memory) return WrongLine(kWhat, line_number, line);
      kernel->stack_bytes = std::stoi(match[1]);
      kernel->spill_bytes = std::stoi(match[2]) + std::stoi(match[3]);
      has_memory = true;
    } else if (std::regex_match(line, match, registers)) {
      if (!kernel || !has_memory) return WrongLine(kWhat, line_number, line);
      kernel->registers = std::stoi(match[1]);
      usage.push_back(*kernel);
      kernel.reset();
    }
  }
  if (kernel) return WrongLine(kWhat, line_number, "the text ends within a kernel");
  if (usage.empty()) return WrongLine(kWhat, line_number, "there is no kernel");
  return usage;
}

absl::StatusOr<std::map<std::string, int>> ParseBudget(const std::string& text) {
  static constexpr char kWhat[] = "budget of kernels";
  const std::regex entry("(\\S+) +(\\d{1,3})");
  std::map<std::string, int> budget;
  int line_number = 0;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    ++line_number;
    if (line.empty() || line[0] == '#') continue;
    std::smatch match;
    if (!std::regex_match(line, match, entry) ||
        !budget.emplace(match[1], std::stoi(match[2])).second) {
      return WrongLine(kWhat, line_number, line);
    }
  }
  return budget;
}

std::vector<std::string> FindBeyondBudget(const std::map<std::string, int>& budget,
                                          const std::vector<KernelUsage>& usage,
                                          const std::vector<std::string>& architectures) {
  std::vector<std::string> wrong;
  std::set<std::string> kernels;
  std::set<std::pair<std::string, std::string>> compiled;
  for (const KernelUsage& kernel : usage) {
    const std::string where = absl::StrCat(kernel.kernel, " on ", kernel.architecture);
    if (kernels.insert(kernel.kernel).second && budget.count(kernel.kernel) == 0) {
      wrong.push_back(absl::StrCat(kernel.kernel, " has no budget"));
    }
    compiled.emplace(kernel.kernel, kernel.architecture);
    const auto allowed = budget.find(kernel.kernel);
    if (allowed != budget.end() && kernel.registers > allowed->second) {
      wrong.push_back(absl::StrCat(where, " takes ", kernel.registers,
                                   " registers, its budget is ", allowed->second));
    }
    if (kernel.spill_bytes > 0 || kernel.stack_bytes > 0) {
      wrong.push_back(absl::StrCat(where, " spills ", kernel.spill_bytes,
                                   " bytes and has ", kernel.stack_bytes,
                                   " bytes of stack, and may have none"));
    }
  }
  for (const std::string& kernel : kernels) {
    for (const std::string& architecture : architectures) {
      if (compiled.count({kernel, architecture}) > 0) continue;
      wrong.push_back(absl::StrCat(kernel, " is not compiled for ", architecture));
    }
  }
  for (const auto& entry : budget) {
    if (kernels.count(entry.first) > 0) continue;
    wrong.push_back(
        absl::StrCat(entry.first, " has a budget, but there is no such kernel"));
  }
  return wrong;
}

}  // namespace psring
