#include "experiments/bench/fastest.h"

#include <map>
#include <string>

#include "absl/strings/ascii.h"
#include "glog/logging.h"

namespace psring {
namespace {

RingMode::Algorithm AlgorithmOf(const BenchRow& row) {
  RingMode::Algorithm algorithm;
  CHECK(RingMode::Algorithm_Parse(absl::AsciiStrToUpper(row.contestant.algorithm),
                                  &algorithm));
  return algorithm;
}

}  // namespace

AlgorithmTable FastestAlgorithms(const std::vector<BenchRow>& rows, int ranks) {
  // By transport, and then by size.
  std::map<RingMode::Transport, std::map<int64_t, const BenchRow*>> fastest;
  for (const BenchRow& row : rows) {
    RingMode::Transport transport;
    if (row.contestant.peer != "psring" || row.contestant.algorithm == "auto" ||
        !RingMode::Transport_Parse(absl::AsciiStrToUpper(row.contestant.transport),
                                   &transport) ||
        transport == RingMode::SHARED_MEMORY) {
      continue;
    }
    const BenchRow*& best = fastest[transport][row.size_bytes];
    if (best == nullptr || row.median_us < best->median_us) best = &row;
  }

  AlgorithmTable table;
  for (const auto& [transport, by_size] : fastest) {
    AlgorithmChoice* last = nullptr;
    for (const auto& [size, row] : by_size) {
      if (last == nullptr || last->algorithm() != AlgorithmOf(*row)) {
        last = table.add_choices();
        last->set_transport(transport);
        last->set_workers(ranks);
        last->set_algorithm(AlgorithmOf(*row));
      }
      last->set_up_to_bytes(size);
    }
    last->clear_up_to_bytes();
  }
  return table;
}

}  // namespace psring
