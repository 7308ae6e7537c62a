#include "experiments/hosts/kernel_statistics.h"

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace psring {
namespace {

absl::Status NotUnderstood(absl::string_view what, absl::string_view text) {
  return absl::InternalError(
      absl::StrCat("cannot read ", what, ": \"", text.substr(0, 200), "\""));
}

absl::StatusOr<std::vector<int64_t>> Numbers(absl::string_view what,
                                             absl::string_view line) {
  std::vector<int64_t> numbers;
  for (const absl::string_view word :
       absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty())) {
    if (!absl::SimpleAtoi(word, &numbers.emplace_back()))
      return NotUnderstood(what, line);
  }
  return numbers;
}

}  // namespace

absl::StatusOr<std::map<std::string, QueueStatistics>> ParseQueues(
    absl::string_view json) {
  const auto queues = nlohmann::json::parse(json, /*cb=*/nullptr,
                                            /*allow_exceptions=*/false);
  if (!queues.is_array()) return NotUnderstood("the output of tc", json);
  std::map<std::string, QueueStatistics> statistics;
  for (const auto& queue : queues) {
    if (!queue.is_object()) return NotUnderstood("the output of tc", json);
    if (!queue.value("root", false)) continue;
    QueueStatistics& read = statistics[queue.value("dev", "")];
    const auto number = [&queue](const char* name, int64_t* value) {
      const auto field = queue.find(name);
      if (field == queue.end() || !field->is_number_integer()) return false;
      *value = field->get<int64_t>();
      return true;
    };
    if (!number("bytes", &read.bytes) || !number("packets", &read.packets) ||
        !number("drops", &read.dropped) || !number("backlog", &read.backlog_bytes)) {
      return NotUnderstood("the output of tc", queue.dump());
    }
  }
  return statistics;
}

absl::StatusOr<std::map<std::string, InterfaceStatistics>> ParseInterfaces(
    absl::string_view text) {
  // "  data-0: " and then eight numbers of what was received and eight of what was sent,
  // bytes and packets first.
  constexpr size_t kColumns = 16;
  constexpr size_t kSent = 8;
  std::map<std::string, InterfaceStatistics> statistics;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos) continue;  // The header.
    ASSIGN_OR_RETURN(const std::vector<int64_t> numbers,
                     Numbers("/proc/net/dev", line.substr(colon + 1)));
    if (numbers.size() < kColumns) return NotUnderstood("/proc/net/dev", line);
    statistics[std::string(absl::StripAsciiWhitespace(line.substr(0, colon)))] = {
        .received_bytes = numbers[0],
        .received_packets = numbers[1],
        .sent_bytes = numbers[kSent],
        .sent_packets = numbers[kSent + 1]};
  }
  return statistics;
}

absl::StatusOr<int64_t> ParseResentSegments(absl::string_view text) {
  // Two lines that begin with "Tcp: ": names, then as many numbers.
  std::vector<std::vector<absl::string_view>> tcp;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::StartsWith(line, "Tcp: ")) tcp.push_back(absl::StrSplit(line, ' '));
  }
  if (tcp.size() == 2 && tcp[0].size() == tcp[1].size()) {
    for (size_t i = 0; i < tcp[0].size(); ++i) {
      int64_t segments = 0;
      if (tcp[0][i] == "RetransSegs" && absl::SimpleAtoi(tcp[1][i], &segments)) {
        return segments;
      }
    }
  }
  return NotUnderstood("/proc/net/snmp", text);
}

absl::StatusOr<ProcessorTimes> ParseProcessorTimes(absl::string_view text) {
  // "cpu  user nice system idle iowait irq softirq steal ..."; guests are part of user.
  constexpr size_t kIdle = 3;
  constexpr size_t kInputWait = 4;
  constexpr size_t kParts = 8;
  const absl::string_view line = text.substr(0, text.find('\n'));
  if (!absl::StartsWith(line, "cpu ")) return NotUnderstood("/proc/stat", line);
  ASSIGN_OR_RETURN(const std::vector<int64_t> ticks,
                   Numbers("/proc/stat", line.substr(4)));
  if (ticks.size() < kParts) return NotUnderstood("/proc/stat", line);
  const absl::Duration tick = absl::Milliseconds(10);
  ProcessorTimes times{.idle = tick * (ticks[kIdle] + ticks[kInputWait])};
  for (size_t i = 0; i < kParts; ++i) times.total += tick * ticks[i];
  return times;
}

absl::StatusOr<ProcessorTimes> ReadProcessorTimes() {
  std::ifstream file("/proc/stat");
  std::string line;
  std::getline(file, line);
  return ParseProcessorTimes(line);
}

}  // namespace psring
