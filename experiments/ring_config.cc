#include "experiments/ring_config.h"

#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/status_macros.h"
#include "experiments/algorithm_table.h"

namespace psring {
namespace {

// Each rank has so many descriptors for each of its peers, twice.
constexpr int64_t kMostConnections = 64;

// What the one way of summing in shared memory leaves to be chosen.
absl::Status CheckSharedMemory(const RingMode& ring, const std::string& path,
                               const FieldOrigins& origins) {
  if (ring.algorithm() != RingMode::RING && ring.algorithm() != RingMode::AUTO) {
    return origins.Error(
        path + ".algorithm",
        absl::StrCat("is ", RingMode::Algorithm_Name(ring.algorithm()),
                     ", and SHARED_MEMORY has one of its own, with the bits of RING"),
        "RING, AUTO");
  }
  if (!ring.choices().empty()) {
    return origins.Error(path + ".choices",
                         "there is nothing to choose with SHARED_MEMORY",
                         "leaving them out");
  }
  if (ring.connections() > 1) {
    return origins.Error(
        path + ".connections",
        absl::StrCat("is ", ring.connections(), ", and SHARED_MEMORY has none"),
        "1, or leaving it out");
  }
  return absl::OkStatus();
}

absl::Status CheckTable(const RingMode& ring, const std::string& path,
                        const FieldOrigins& origins) {
  if (ring.choices().empty()) return absl::OkStatus();
  if (ring.algorithm() != RingMode::AUTO) {
    return origins.Error(path,
                         absl::StrCat("is for AUTO, and the algorithm is ",
                                      RingMode::Algorithm_Name(ring.algorithm())),
                         "algorithm: AUTO, or leaving them out");
  }
  RETURN_IF_ERROR(CheckChoices(ring.choices(), path, origins));
  // Whatever the number of workers, some measured one is the nearest.
  if (ChoicesFor(ring.choices(), ring.transport(), /*workers=*/2).empty()) {
    return origins.Error(
        path,
        absl::StrCat("has no row for ", RingMode::Transport_Name(ring.transport()),
                     ", the arm's transport"),
        "rows for it, or no rows at all");
  }
  return absl::OkStatus();
}

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
  return ring.transport() == RingMode::SHARED_MEMORY
             ? CheckSharedMemory(ring, path, origins)
             : CheckTable(ring, path + ".choices", origins);
}

absl::Status CheckForSeveralHosts(const Arm& arm) {
  if (arm.ring().transport() != RingMode::SHARED_MEMORY) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "arm '", arm.name(),
      "': ring.transport: is SHARED_MEMORY, for processes that psring starts on its own "
      "host, and --external leaves that to others; allowed: TCP, GRPC"));
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

void FillRingDefaults(int64_t workers, RingMode* ring) {
  if (ring->connections() == 0) ring->set_connections(1);
  if (ring->algorithm() != RingMode::AUTO) return;
  if (ring->transport() == RingMode::SHARED_MEMORY) {
    ring->set_algorithm(RingMode::RING);
    return;
  }
  *ring->mutable_choices() = ChoicesFor(
      ring->choices().empty() ? MeasuredAlgorithms().choices() : ring->choices(),
      ring->transport(), workers);
}

std::string DescribeRing(const RingMode& ring) {
  std::string text = absl::StrCat(
      absl::StrReplaceAll(AlgorithmName(ring.algorithm()), {{"_", "-"}}), " all-reduce");
  if (ring.transport() == RingMode::GRPC) absl::StrAppend(&text, " over gRPC");
  if (ring.transport() == RingMode::SHARED_MEMORY) {
    absl::StrAppend(&text, " in shared memory");
  }
  if (ring.connections() > 1) {
    absl::StrAppend(&text, ", ", ring.connections(), " connections");
  }
  if (ring.spin()) absl::StrAppend(&text, ", spinning");
  if (ring.sharded_optimizer()) absl::StrAppend(&text, ", sharded optimizer");
  return text;
}

std::string AlgorithmName(RingMode::Algorithm algorithm) {
  return absl::AsciiStrToLower(RingMode::Algorithm_Name(algorithm));
}

}  // namespace psring
