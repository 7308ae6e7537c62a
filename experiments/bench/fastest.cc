#include "experiments/bench/fastest.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "glog/logging.h"

namespace psring {
namespace {

// What one run measures as faster by less may be slower in the next.
constexpr double kClearlyFaster = 0.9;

RingMode::Algorithm AlgorithmOf(const BenchRow& row) {
  RingMode::Algorithm algorithm;
  CHECK(RingMode::Algorithm_Parse(absl::AsciiStrToUpper(row.contestant.algorithm),
                                  &algorithm));
  return algorithm;
}

}  // namespace

AlgorithmTable FastestAlgorithms(const std::vector<BenchRow>& rows, int ranks) {
  using Medians = std::map<RingMode::Algorithm, double>;
  std::map<RingMode::Transport, std::map<int64_t, Medians>> medians;  // By size.
  for (const BenchRow& row : rows) {
    RingMode::Transport transport;
    if (row.contestant.peer != "psring" || row.contestant.algorithm == "auto" ||
        !RingMode::Transport_Parse(absl::AsciiStrToUpper(row.contestant.transport),
                                   &transport) ||
        transport == RingMode::SHARED_MEMORY) {
      continue;
    }
    medians[transport][row.size_bytes][AlgorithmOf(row)] = row.median_us;
  }

  AlgorithmTable table;
  for (const auto& [transport, by_size] : medians) {
    AlgorithmChoice* last = nullptr;
    for (const auto& [size, measured] : by_size) {
      const auto best = std::min_element(
          measured.begin(), measured.end(),
          [](const auto& a, const auto& b) { return a.second < b.second; });
      if (last == nullptr ||
          best->second < kClearlyFaster * measured.at(last->algorithm())) {
        last = table.add_choices();
        last->set_transport(transport);
        last->set_workers(ranks);
        last->set_algorithm(best->first);
      }
      last->set_up_to_bytes(size);
    }
    last->clear_up_to_bytes();
  }
  return table;
}

}  // namespace psring
