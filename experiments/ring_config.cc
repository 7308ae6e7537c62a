#include "experiments/ring_config.h"

#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace psring {
namespace {

// Each rank has so many descriptors for each of its peers, twice.
constexpr int64_t kMostConnections = 64;

}  // namespace

absl::Status CheckRing(const RingMode& ring, const std::string& path,
                       const FieldOrigins& origins) {
  if (!RingMode::Transport_IsValid(ring.transport())) {
    return origins.Error(path + ".transport", absl::StrCat("is ", int{ring.transport()}),
                         ValueNames(*RingMode::Transport_descriptor()));
  }
  if (!RingMode::Algorithm_IsValid(ring.algorithm())) {
    return origins.Error(path + ".algorithm", absl::StrCat("is ", int{ring.algorithm()}),
                         ValueNames(*RingMode::Algorithm_descriptor()));
  }
  const std::string connections = path + ".connections";
  if (origins.Has(connections) &&
      (ring.connections() < 1 || ring.connections() > kMostConnections)) {
    return origins.Error(connections, absl::StrCat("is ", ring.connections()),
                         absl::StrCat("1 to ", kMostConnections));
  }
  return absl::OkStatus();
}

absl::Status CheckRingOrder(const Experiment& experiment, const std::string& arm,
                            int64_t workers, const FieldOrigins& origins) {
  const auto& order = experiment.ring_order();
  if (order.empty()) return absl::OkStatus();
  const std::string allowed =
      absl::StrCat("each of 0 to ", workers - 1, " once, 0 first");
  if (order.size() != workers) {
    return origins.Error("ring_order",
                         absl::StrCat("names ", order.size(), " workers, and arm '", arm,
                                      "' has ", workers),
                         allowed);
  }
  std::set<int32_t> seen;
  for (int i = 0; i < order.size(); ++i) {
    const std::string path = absl::StrCat("ring_order[", i, "]");
    if (order[i] < 0 || order[i] >= workers || (i == 0 && order[i] != 0)) {
      return origins.Error(path, absl::StrCat("is ", order[i]), allowed);
    }
    if (!seen.insert(order[i]).second) {
      return origins.Error(path, absl::StrCat("worker ", order[i], " is named twice"),
                           allowed);
    }
  }
  return absl::OkStatus();
}

void FillRingDefaults(RingMode* ring) {
  if (ring->connections() == 0) ring->set_connections(1);
}

std::string DescribeRing(const RingMode& ring) {
  std::string text =
      absl::StrCat(absl::StrReplaceAll(
                       absl::AsciiStrToLower(RingMode::Algorithm_Name(ring.algorithm())),
                       {{"_", "-"}}),
                   " all-reduce");
  if (ring.transport() == RingMode::GRPC) absl::StrAppend(&text, " over gRPC");
  if (ring.connections() > 1) {
    absl::StrAppend(&text, ", ", ring.connections(), " connections");
  }
  if (ring.spin()) absl::StrAppend(&text, ", spinning");
  return text;
}

}  // namespace psring
