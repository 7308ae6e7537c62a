#include "experiments/bench/apply/options.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "experiments/bench/apply/received.h"
#include "experiments/bench/options.h"
#include "experiments/text.h"

namespace psring {
namespace {

constexpr absl::string_view kPieces[] = {"whole", "cut"};
constexpr int64_t kLargeCacheBytes = int64_t{256} << 20;

// What sysfs calls "32768K"; 0: there is no such file, or something else in it.
int64_t CacheBytes(int index) {
  std::ifstream file(
      absl::StrCat("/sys/devices/system/cpu/cpu0/cache/index", index, "/size"));
  std::string size;
  if (!(file >> size)) return 0;
  const absl::StatusOr<int64_t> bytes = ParseBytes(size);
  return bytes.ok() ? *bytes : 0;
}

int64_t AvailableBytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  int64_t kibibytes = 0;
  std::string rest;
  while (file >> name >> kibibytes && std::getline(file, rest)) {
    if (name == "MemAvailable:") return kibibytes << 10;
  }
  return std::numeric_limits<int64_t>::max();
}

}  // namespace

ApplyMachine FindApplyMachine() {
  ApplyMachine machine;
  for (int index = 0; index < 8; ++index) {
    machine.cache_bytes = std::max(machine.cache_bytes, CacheBytes(index));
  }
  if (machine.cache_bytes == 0) machine.cache_bytes = kLargeCacheBytes;
  machine.available_bytes = AvailableBytes();
  return machine;
}

absl::StatusOr<ApplySettings> CheckApplyOptions(const ApplyOptions& options,
                                                const ApplyMachine& machine) {
  BenchOptions bench;
  bench.first_size = options.first_size;
  bench.last_size = options.last_size;
  bench.factor = options.factor;
  ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, SizesOf(bench));
  const std::vector<std::string> known = ApplyOptimizerNames();
  RETURN_IF_ERROR(
      CheckChoices("--optimizer", options.optimizers,
                   std::vector<absl::string_view>(known.begin(), known.end())));
  RETURN_IF_ERROR(CheckChoices("--pieces", options.pieces, kPieces));

  ApplySettings settings;
  settings.working_set_bytes = kCachesFilled * machine.cache_bytes;
  if (!options.working_set.empty()) {
    ASSIGN_OR_RETURN(settings.working_set_bytes, ParseBytes(options.working_set));
  }
  for (const int64_t size : sizes) {
    for (const std::string& optimizer : options.optimizers) {
      for (const std::string& pieces : options.pieces) {
        ApplyCase row{.count = size / int64_t{sizeof(float)},
                      .contributions = options.contributions,
                      .optimizer = optimizer,
                      .pieces = PieceKindOf(pieces)};
        row.buckets = BucketsFor(row, settings.working_set_bytes);
        settings.memory_bytes = std::max(settings.memory_bytes, MemoryBytes(row));
        if (settings.memory_bytes > machine.available_bytes) {
          return absl::InvalidArgumentError(absl::StrCat(
              "rows of ", WithThousands(size), " bytes with ", optimizer, ", ",
              options.contributions, " contributions and a working set of ",
              WithThousands(settings.working_set_bytes), " bytes need ",
              WithThousands(settings.memory_bytes),
              " bytes of memory; available: ", WithThousands(machine.available_bytes)));
        }
        settings.rows.push_back(std::move(row));
      }
    }
  }
  return settings;
}

}  // namespace psring
