#include "experiments/hosts/hot_spot_verdict.h"

#include <algorithm>
#include <cstdint>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiments/hosts/link_usage.h"
#include "experiments/traffic_audit.h"

namespace psring {
namespace {

// Within a tenth, what differs are acknowledgements, and chunks of unequal size.
constexpr double kAlike = 1.1;
// What is used for less is the busiest link, but leaves room. The rest, at a link that
// several connections fill, are losses and the beginning and end of each step.
constexpr double kBottleneck = 0.85;

// Of all workers the one that has most, in one direction, as a multiple of its gradients.
double ModelsPerStep(const ArmResult& arm) {
  int64_t model = 0;
  for (const PlannedBucket& bucket : arm.buckets) model += bucket.bytes;
  double most = 0;
  for (const EndpointTraffic& endpoint : arm.endpoints) {
    if (endpoint.role != "worker" || endpoint.steps == 0) continue;
    const int64_t bytes = std::max(endpoint.payload_out, endpoint.payload_in);
    most = std::max(
        most, static_cast<double>(bytes) / static_cast<double>(endpoint.steps * model));
  }
  return most;
}

// That all of its buckets are summed by the ring's own algorithm.
bool IsRing(const ArmResult& arm) {
  return !arm.buckets.empty() &&
         std::all_of(arm.buckets.begin(), arm.buckets.end(), [](const auto& bucket) {
           return bucket.algorithm == RingMode::RING;
         });
}

// Not of medians: steps of a ring whose links have delays may be short and long by turns.
double StepMs(const ArmRuns& arm) {
  return arm.Over([](const ArmResult& run) { return run.step_ms.mean; }).median;
}

// The arms that the line is of, or null.
struct Chosen {
  const ArmRuns* servers = nullptr;
  const ArmRuns* ring = nullptr;
};

Chosen Choose(const std::vector<ArmRuns>& arms) {
  // Both, then more workers, then the hotter spot.
  const auto rank = [](const Chosen& chosen) {
    const ArmRuns* const any = chosen.servers != nullptr ? chosen.servers : chosen.ring;
    return std::make_tuple(
        chosen.servers != nullptr && chosen.ring != nullptr, chosen.servers != nullptr,
        any == nullptr ? 0 : any->first().workers,
        chosen.servers == nullptr ? 0
                                  : chosen.servers->first().link_usage->hot_spot_factor);
  };
  Chosen best;
  const auto consider = [&](const Chosen& chosen) {
    if (rank(chosen) > rank(best)) best = chosen;
  };
  for (const ArmRuns& arm : arms) {
    const ArmResult& run = arm.first();
    if (!run.validity) continue;
    if (IsRing(run)) consider({.ring = &arm});
    if (run.servers == 0) continue;
    consider({.servers = &arm});
    for (const ArmRuns& other : arms) {
      const ArmResult& ring = other.first();
      if (ring.validity && IsRing(ring) && ring.workers == run.workers) {
        consider({.servers = &arm, .ring = &other});
      }
    }
  }
  return best;
}

std::string LinkName(const LinkUse& link) {
  return absl::StartsWith(link.host, "rack") ? "the link between the racks"
                                             : absl::StrCat("the link of ", link.host);
}

std::string OfServers(const ArmResult& arm) {
  const LinkUsage& usage = *arm.link_usage;
  const LinkUse& link = usage.links[usage.busiest];
  const std::string busy =
      absl::StrFormat("%.0f %% of the time in use", 100 * link.utilisation);
  if (usage.hot_spot_factor <= kAlike) {
    return absl::StrCat(arm.name, ": every host's link carries alike, ", busy);
  }
  // A faster link of the host that carries most need not be the busiest one.
  return absl::StrFormat(
      "%s: %s is the %s, %s%s %.1f x the mean worker's", arm.name, LinkName(link),
      link.utilisation >= kBottleneck ? "bottleneck" : "busiest", busy,
      link.host == usage.hot_host ? " and"
                                  : absl::StrCat("; ", usage.hot_host, " carries"),
      usage.hot_spot_factor);
}

std::string OfRing(const ArmResult& arm) {
  const double factor = arm.link_usage->hot_spot_factor;
  return absl::StrFormat(
      "%s moves %.2f M per worker over %s", arm.name, ModelsPerStep(arm),
      factor <= kAlike
          ? "every link alike"
          : absl::StrFormat("links of which one has %.1f x the mean", factor));
}

std::string NotValid(const ArmRuns* arm) {
  if (arm == nullptr) return "";
  const Validity* validity = arm->Void();
  if (validity == nullptr) validity = &*arm->first().validity;
  switch (validity->kind) {
    case Validity::Kind::kValid:
      return "";
    case Validity::Kind::kVoid:
      return absl::StrCat(arm->first().name, " is void: ", validity->why);
    case Validity::Kind::kCannotBeTold:
      return absl::StrCat("whether links set the times of ", arm->first().name,
                          " cannot be told: ", validity->why);
  }
  return "";
}

}  // namespace

std::string HotSpotVerdict(const std::vector<ArmRuns>& arms) {
  const auto [servers, ring] = Choose(arms);
  if (servers == nullptr && ring == nullptr) return "";
  for (const ArmRuns* const arm : {servers, ring}) {
    if (const std::string why = NotValid(arm); !why.empty()) {
      return absl::StrCat("verdict: none, because ", why, "\n");
    }
  }
  if (ring == nullptr)
    return absl::StrCat("verdict: ", OfServers(servers->first()), "\n");
  if (servers == nullptr) return absl::StrCat("verdict: ", OfRing(ring->first()), "\n");
  const double ratio = StepMs(*servers) / StepMs(*ring);
  return absl::StrFormat("verdict: %s; %s, and its step is %.1f x %s\n",
                         OfServers(servers->first()), OfRing(ring->first()),
                         ratio < 1 ? 1 / ratio : ratio, ratio < 1 ? "longer" : "shorter");
}

}  // namespace psring
