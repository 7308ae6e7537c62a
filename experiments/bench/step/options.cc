#include "experiments/bench/step/options.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "experiments/bench/inputs.h"
#include "experiments/bench/options.h"

namespace psring {
namespace {

constexpr absl::string_view kArms[] = {"ring", "servers", "local"};
constexpr absl::string_view kTransports[] = {"tcp", "shared_memory", "grpc"};
constexpr absl::string_view kPeers[] = {"pytorch"};
constexpr int64_t kClasses = 10;  // Of every data set that a worker loads.
constexpr int64_t kWidest = int64_t{1} << 20;
constexpr int64_t kMostParameters = int64_t{1} << 30;
constexpr int64_t kMostPixels = int64_t{1} << 30;
// Steps of an epoch: more take memory, and of fewer a model would soon know every sample.
constexpr int64_t kBatches = 32;

absl::StatusOr<std::vector<int64_t>> ParseWidths(const std::string& model) {
  std::vector<int64_t> widths;
  for (const absl::string_view text : absl::StrSplit(model, '-')) {
    int64_t width = 0;
    if (!absl::SimpleAtoi(text, &width) || width < 1 || width > kWidest) {
      return absl::InvalidArgumentError(absl::StrCat("--model ", model, ": \"", text,
                                                     "\" is not a width; allowed: 1 to ",
                                                     kWidest, ", joined by '-'"));
    }
    widths.push_back(width);
  }
  if (widths.size() < 2 || widths.back() != kClasses) {
    return absl::InvalidArgumentError(
        absl::StrCat("--model ", model,
                     ": allowed: at least two widths, of which the "
                     "last is ",
                     kClasses, ", the classes of the data"));
  }
  return widths;
}

}  // namespace

absl::StatusOr<StepSettings> CheckStepOptions(const StepBenchOptions& options) {
  StepSettings settings;
  ASSIGN_OR_RETURN(settings.widths, ParseWidths(options.model));
  for (size_t layer = 0; layer + 1 < settings.widths.size(); ++layer) {
    settings.parameters += (settings.widths[layer] + 1) * settings.widths[layer + 1];
    if (settings.parameters > kMostParameters) {
      return absl::InvalidArgumentError(absl::StrCat("--model ", options.model,
                                                     ": allowed: at most ",
                                                     kMostParameters, " parameters"));
    }
  }
  RETURN_IF_ERROR(CheckChoices("--arm", options.arms, kArms));
  RETURN_IF_ERROR(CheckChoices("--transport", options.transports, kTransports));
  RETURN_IF_ERROR(CheckChoices("--against", options.against, kPeers));
  const bool ring = std::count(options.arms.begin(), options.arms.end(), "ring") > 0;
  if (!ring && options.transports != StepBenchOptions().transports) {
    return absl::InvalidArgumentError("--transport is a ring's: it needs --arm ring");
  }
  if (options.ranks < 1 || options.ranks > kMaxBenchRanks) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ranks ", options.ranks, ": 1 to ", kMaxBenchRanks));
  }
  if (options.servers < 1 || options.servers > kMaxBenchRanks) {
    return absl::InvalidArgumentError(
        absl::StrCat("--servers ", options.servers, ": 1 to ", kMaxBenchRanks));
  }
  for (const std::string& text : options.caps) {
    ASSIGN_OR_RETURN(const int64_t cap, ParseBytes(text));
    if (cap < int64_t{sizeof(float)}) {
      return absl::InvalidArgumentError(
          absl::StrCat("--cap ", text, ": at least a float's 4 bytes"));
    }
    if (std::count(settings.caps.begin(), settings.caps.end(), cap) > 0) {
      return absl::InvalidArgumentError(absl::StrCat("--cap names ", text, " twice"));
    }
    settings.caps.push_back(cap);
  }
  settings.samples = kBatches * options.batch * options.ranks;
  if (settings.samples > kMostPixels / settings.widths[0]) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--batch ", options.batch, ": allowed: ",
        kMostPixels / settings.widths[0] / kBatches / options.ranks, " at most, with ",
        options.ranks, " ranks and ", settings.widths[0], " pixels a sample"));
  }
  return settings;
}

}  // namespace psring
