#include "experiments/bench/push_pull/options.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/slot_plan.h"
#include "common/status_macros.h"
#include "experiments/bench/inputs.h"
#include "experiments/bench/push_pull/plan.h"
#include "experiments/inventory.h"
#include "experiments/text.h"

namespace psring {
namespace {

constexpr absl::string_view kContestants[] = {"psring", "grpc", "tcp"};
// In which every push counts, once, so that the parameters' values can be told.
constexpr absl::string_view kModes[] = {"sync", "bounded", "async"};
// In which an answer is a whole number of pushes, which echoes need.
constexpr absl::string_view kWires[] = {"fp32", "bf16", "fp16"};
constexpr int64_t kMostBound = int64_t{1} << 30;
// What a message can hold, and a header.
constexpr int64_t kMostSlotBytes = int64_t{1} << 30;

absl::Status CheckRange(absl::string_view flag, int64_t value, int64_t least,
                        int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " ", value, ": ", least, " to ", most));
}

absl::StatusOr<ParameterServerMode> ModeOf(const PushPullOptions& options) {
  RETURN_IF_ERROR(CheckChoices("--mode", {options.mode}, kModes));
  if (options.bound && options.mode != "bounded") {
    return absl::InvalidArgumentError("--bound is of --mode bounded alone");
  }
  ParameterServerMode mode;
  if (options.mode == "sync") {
    mode.mutable_sync();
  } else if (options.mode == "bounded") {
    const int64_t bound = options.bound.value_or(1);
    RETURN_IF_ERROR(CheckRange("--bound", bound, 0, kMostBound));
    mode.mutable_bounded()->set_bound(bound);
  } else {
    mode.mutable_async();
  }
  // Whole numbers stay whole.
  if (!mode.has_sync()) mode.mutable_stale_updates()->set_scale(StaleUpdates::ONE);
  return mode;
}

// With whole tensors there have to be several, or one server has them all.
absl::StatusOr<Placement> PlacementOf(const PushPullOptions& options) {
  const std::vector<std::string> names = PlacementNames();
  RETURN_IF_ERROR(
      CheckChoices("--placement", {options.placement},
                   std::vector<absl::string_view>(names.begin(), names.end())));
  const auto found = std::ranges::find(names, options.placement);
  const auto placement = static_cast<Placement>(found - names.begin());
  if (!options.inventory.empty()) {
    const std::vector<std::string> inventories = InventoryNames();
    RETURN_IF_ERROR(CheckChoices(
        "--inventory", {options.inventory},
        std::vector<absl::string_view>(inventories.begin(), inventories.end())));
  } else if (placement == ParameterServerMode::BY_TENSOR_ROUND_ROBIN ||
             placement == ParameterServerMode::BY_TENSOR_SIZE) {
    return absl::InvalidArgumentError(
        absl::StrCat("--placement ", options.placement,
                     " needs --inventory: it is about the sizes of tensors"));
  }
  return placement;
}

absl::StatusOr<Wire> WireOf(const PushPullOptions& options) {
  RETURN_IF_ERROR(CheckChoices("--wire", {options.wire}, kWires));
  Wire wire;
  if (options.wire == "bf16") {
    wire.mutable_bf16();
  } else if (options.wire == "fp16") {
    wire.mutable_fp16();
  } else {
    wire.mutable_fp32();
  }
  return wire;
}

}  // namespace

absl::StatusOr<PushPullSettings> CheckPushPullOptions(const PushPullOptions& options) {
  PushPullSettings settings;
  ASSIGN_OR_RETURN(settings.sizes, SizesOf(options));
  RETURN_IF_ERROR(CheckRange("--workers", options.workers, 1, kMaxBenchRanks));
  RETURN_IF_ERROR(CheckRange("--servers", options.servers, 1, kMaxBenchRanks));
  RETURN_IF_ERROR(CheckChoices("--contestant", options.contestants, kContestants));
  if (options.contestants.empty()) {
    return absl::InvalidArgumentError("--contestant: names nobody");
  }
  ASSIGN_OR_RETURN(*settings.job.mutable_mode(), ModeOf(options));
  ASSIGN_OR_RETURN(const Placement placement, PlacementOf(options));
  settings.job.mutable_mode()->set_placement(placement);
  settings.job.set_inventory(options.inventory);
  ASSIGN_OR_RETURN(*settings.job.mutable_wire(), WireOf(options));
  ASSIGN_OR_RETURN(const int64_t slot_bytes, ParseBytes(options.slot_bytes));
  if (slot_bytes < int64_t{sizeof(float)} || slot_bytes % int64_t{sizeof(float)} != 0 ||
      slot_bytes > kMostSlotBytes) {
    return absl::InvalidArgumentError(absl::StrCat("--slot-bytes ", options.slot_bytes,
                                                   ": a multiple of 4 bytes up to 1G"));
  }
  settings.job.set_workers(options.workers);
  settings.job.set_servers(options.servers);
  settings.job.set_slot_bytes(slot_bytes);
  const int64_t slots =
      CountSlots(settings.job, settings.sizes.back() / int64_t{sizeof(float)});
  if (slots > kMostSlots) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--slot-bytes ", options.slot_bytes, ": ", WithThousands(settings.sizes.back()),
        " bytes are ", WithThousands(slots),
        " slots; allowed: ", WithThousands(kMostSlots), " at most"));
  }
  return settings;
}

}  // namespace psring
