#include "experiments/algorithm_table.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "google/protobuf/descriptor.h"

namespace psring {

// The build makes it from the file algorithm_table.textproto.
extern const char kAlgorithmTableText[];

namespace {

constexpr char kHeader[] =
    "# proto-file: proto/experiment.proto\n"
    "# proto-message: AlgorithmTable\n"
    "\n"
    "# AUTO's table: which algorithm sums an operation fastest. ring/README.md says how\n"
    "# it is measured. psring carries it; an arm's settings show its rows of it.\n";

// What rows that belong together have in common.
using Situation = std::pair<int, int64_t>;  // Transport and workers.

Situation SituationOf(const AlgorithmChoice& choice) {
  return {choice.transport(), choice.workers()};
}

std::string Describe(const AlgorithmChoice& choice) {
  return absl::StrCat(RingMode::Transport_Name(choice.transport()), " with ",
                      choice.workers(), " workers");
}

// "missing", "is AUTO", "is 9".
std::string Problem(bool written, const google::protobuf::EnumDescriptor& type,
                    int number) {
  if (!written) return "missing";
  const auto* const value = type.FindValueByNumber(number);
  return value == nullptr ? absl::StrCat("is ", number)
                          : absl::StrCat("is ", value->name());
}

// A row by itself.
absl::Status CheckRow(const AlgorithmChoice& choice, const std::string& path,
                      const FieldOrigins& origins) {
  const RingMode::Transport transport = choice.transport();
  if (!choice.has_transport() || !RingMode::Transport_IsValid(transport) ||
      transport == RingMode::SHARED_MEMORY) {
    return origins.Error(
        path + ".transport",
        Problem(choice.has_transport(), *RingMode::Transport_descriptor(), transport),
        "TCP, GRPC");
  }
  if (choice.workers() < 2) {
    return origins.Error(path + ".workers",
                         origins.Has(path + ".workers")
                             ? absl::StrCat("is ", choice.workers())
                             : "missing",
                         "at least 2");
  }
  if (choice.has_up_to_bytes() && choice.up_to_bytes() < 1) {
    return origins.Error(path + ".up_to_bytes", absl::StrCat("is ", choice.up_to_bytes()),
                         "at least 1, or leaving it out for no limit");
  }
  const RingMode::Algorithm algorithm = choice.algorithm();
  if (!choice.has_algorithm() || !RingMode::Algorithm_IsValid(algorithm) ||
      algorithm == RingMode::AUTO) {
    return origins.Error(
        path + ".algorithm",
        Problem(choice.has_algorithm(), *RingMode::Algorithm_descriptor(), algorithm),
        "RING, HALVING_DOUBLING, TREE, GATHER_BROADCAST");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckChoices(const AlgorithmChoices& choices, const std::string& path,
                          const FieldOrigins& origins) {
  const auto element = [&](int index) { return absl::StrCat(path, "[", index, "]"); };
  std::map<Situation, int> last;  // Of the rows so far.
  for (int i = 0; i < choices.size(); ++i) {
    RETURN_IF_ERROR(CheckRow(choices[i], element(i), origins));
    const auto [before, is_first] = last.try_emplace(SituationOf(choices[i]), i);
    if (is_first) continue;
    const AlgorithmChoice& previous = choices[before->second];
    if (!previous.has_up_to_bytes()) {
      return origins.Error(
          element(i),
          absl::StrCat("comes after ", element(before->second),
                       ", which has no up_to_bytes and so takes everything"),
          absl::StrCat("no more rows for ", Describe(previous)));
    }
    if (choices[i].has_up_to_bytes() &&
        choices[i].up_to_bytes() <= previous.up_to_bytes()) {
      return origins.Error(element(i) + ".up_to_bytes",
                           absl::StrCat("is ", choices[i].up_to_bytes()),
                           absl::StrCat("more than ", previous.up_to_bytes(),
                                        ", that of ", element(before->second)));
    }
    before->second = i;
  }
  for (const auto& [situation, i] : last) {
    if (!choices[i].has_up_to_bytes()) continue;
    return origins.Error(element(i) + ".up_to_bytes",
                         absl::StrCat("is ", choices[i].up_to_bytes(),
                                      " in the last row for ", Describe(choices[i])),
                         "leaving it out");
  }
  return absl::OkStatus();
}

AlgorithmChoices ChoicesFor(const AlgorithmChoices& choices,
                            RingMode::Transport transport, int64_t workers) {
  std::optional<int64_t> nearest;
  for (const AlgorithmChoice& choice : choices) {
    if (choice.transport() != transport) continue;
    const auto distance = [&](int64_t other) { return std::abs(other - workers); };
    // The nearer, and of equal ones the larger.
    if (!nearest || std::pair(distance(choice.workers()), -choice.workers()) <
                        std::pair(distance(*nearest), -*nearest)) {
      nearest = choice.workers();
    }
  }
  AlgorithmChoices chosen;
  for (const AlgorithmChoice& choice : choices) {
    if (choice.transport() == transport && choice.workers() == nearest) {
      *chosen.Add() = choice;
    }
  }
  return chosen;
}

absl::StatusOr<AlgorithmTable> ReadAlgorithmTable(const std::string& text,
                                                  const std::string& file) {
  AlgorithmTable table;
  FieldOrigins origins(file);
  RETURN_IF_ERROR(ReadText(text, &table, &origins));
  RETURN_IF_ERROR(CheckChoices(table.choices(), "choices", origins));
  return table;
}

std::string PrintAlgorithmTable(const AlgorithmTable& table) {
  std::string text = kHeader;
  for (const AlgorithmChoice& choice : table.choices()) {
    absl::StrAppend(&text, "choices { ", OnOneLine(choice), " }\n");
  }
  return text;
}

AlgorithmTable MeasuredAlgorithms() {
  const absl::StatusOr<AlgorithmTable> table =
      ReadAlgorithmTable(kAlgorithmTableText, "experiments/algorithm_table.textproto");
  CHECK(table.ok()) << table.status();
  return *table;
}

void UpdateTable(const AlgorithmTable& measured, AlgorithmTable* table) {
  std::set<Situation> replaced;
  for (const AlgorithmChoice& choice : measured.choices()) {
    replaced.insert(SituationOf(choice));
  }
  AlgorithmTable updated = measured;
  for (const AlgorithmChoice& choice : table->choices()) {
    if (!replaced.contains(SituationOf(choice))) *updated.add_choices() = choice;
  }
  // Stable: rows of the same transport and workers stay in their order.
  std::stable_sort(updated.mutable_choices()->pointer_begin(),
                   updated.mutable_choices()->pointer_end(),
                   [](const AlgorithmChoice* a, const AlgorithmChoice* b) {
                     return SituationOf(*a) < SituationOf(*b);
                   });
  *table = std::move(updated);
}

}  // namespace psring
