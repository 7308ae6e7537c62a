#include "experiments/hosts/link_usage.h"

#include <algorithm>
#include <limits>
#include <map>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "experiments/hosts/host_plan.h"
#include "experiments/hosts/link_reading.h"

namespace psring {
namespace {

// From the first step's beginning to the last one's end, of all workers. The first
// distribution of parameters is before.
double SecondsOfSteps(const ArmRecords& records) {
  int64_t begin_ns = std::numeric_limits<int64_t>::max();
  int64_t end_ns = 0;
  for (const auto& rank : records.steps) {
    if (rank.empty()) continue;
    begin_ns = std::min(begin_ns, rank.front().start_ns());
    end_ns = std::max(end_ns, rank.back().start_ns() + rank.back().total_ns());
  }
  return end_ns == 0 ? 0 : static_cast<double>(end_ns - begin_ns) / 1e9;
}

bool IsRack(const std::string& host) { return absl::StartsWith(host, "rack"); }

double Share(int64_t part, int64_t rest) {
  return part == 0 ? 0 : static_cast<double>(part) / static_cast<double>(part + rest);
}

// What share of the payload on a link the steps have.
double ShareOfSteps(const LinkDirection& link,
                    const std::vector<EndpointTraffic>& endpoints) {
  int64_t steps = 0;
  int64_t others = 0;
  const bool between_racks = IsRack(link.host);  // Nobody's own.
  for (const EndpointTraffic& endpoint : endpoints) {
    if (!between_racks && endpoint.host != link.host) continue;
    const LinkPayload payload = LinkPayloadOf(endpoint, between_racks || link.out);
    steps += payload.steps;
    others += payload.other;
  }
  return Share(steps, others);
}

void FindHotSpot(LinkUsage* usage) {
  std::map<std::string, double> larger;
  for (const LinkUse& link : usage->links) {
    if (IsRack(link.host)) continue;
    double& bytes = larger[link.host];
    bytes = std::max(bytes, link.bytes);
  }
  double most = 0;
  double workers = 0;
  double sum = 0;
  for (const auto& [host, bytes] : larger) {
    if (bytes > most) {
      most = bytes;
      usage->hot_host = host;
    }
    if (!absl::StartsWith(host, "worker")) continue;
    ++workers;
    sum += bytes;
  }
  usage->hot_spot_factor = sum == 0 ? 0 : most / (sum / workers);
}

// Null: it was not read.
const LinkReading* Find(const HostsReading& reading, const LinkUse& link) {
  const auto found = std::find_if(reading.links.begin(), reading.links.end(),
                                  [&link](const LinkReading& read) {
                                    return read.host == link.host && read.out == link.out;
                                  });
  return found == reading.links.end() ? nullptr : &*found;
}

// Fills in what the intervals say in which the busiest link has carried something.
void WatchBusiest(const std::vector<HostsReading>& readings, LinkUsage* usage) {
  const LinkUse& link = usage->links[usage->busiest];
  absl::Duration idle = absl::ZeroDuration();
  absl::Duration total = absl::ZeroDuration();
  for (size_t i = 1; i < readings.size(); ++i) {
    const HostsReading& before = readings[i - 1];
    const HostsReading& after = readings[i];
    const LinkReading* const was = Find(before, link);
    const LinkReading* const is = Find(after, link);
    if (was == nullptr || is == nullptr || was->bytes == is->bytes) continue;
    const double seconds = absl::ToDoubleSeconds(after.time - before.time);
    const double bits = 8 * static_cast<double>(is->bytes - was->bytes);
    ++usage->intervals_in_use;
    usage->seconds_in_use += seconds;
    usage->peak_utilisation = std::max(
        usage->peak_utilisation, bits / (static_cast<double>(link.bit_s) * seconds));
    idle += after.idle - before.idle;
    total += after.processors - before.processors;
  }
  if (total > absl::ZeroDuration()) {
    usage->idle_processors = absl::FDivDuration(idle, total);
  }
}

}  // namespace

std::optional<LinkUsage> LinkUsageOf(const JobSpec& spec, const ArmRecords& records,
                                     const std::vector<EndpointTraffic>& endpoints) {
  const double steps = SecondsOfSteps(records);
  if (!OnHosts(spec) || records.readings.empty() || steps == 0 ||
      records.moving == absl::ZeroDuration()) {
    return std::nullopt;
  }
  LinkUsage usage;
  usage.moving_seconds = absl::ToDoubleSeconds(records.moving);
  for (const LinkDirection& link : LinksOf(PlanHosts(spec))) {
    LinkUse use{.host = link.host, .out = link.out, .bit_s = link.bit_s};
    const LinkReading* const total = Find(records.readings.back(), use);
    if (total == nullptr) return std::nullopt;
    use.bytes = static_cast<double>(total->bytes) * ShareOfSteps(link, endpoints);
    const double seconds = use.bytes * 8 / static_cast<double>(link.bit_s);
    use.utilisation = seconds / usage.moving_seconds;
    use.share_of_steps = seconds / steps;
    use.dropped = total->dropped;
    for (const HostsReading& reading : records.readings) {
      const LinkReading* const then = Find(reading, use);
      if (then == nullptr) continue;
      use.backlog_bytes = std::max(use.backlog_bytes, then->backlog_bytes);
    }
    usage.links.push_back(use);
  }
  const auto busiest = std::max_element(
      usage.links.begin(), usage.links.end(),
      [](const LinkUse& a, const LinkUse& b) { return a.utilisation < b.utilisation; });
  if (busiest->bytes == 0) return std::nullopt;
  usage.busiest = static_cast<int>(busiest - usage.links.begin());
  FindHotSpot(&usage);
  if (const auto floor = FloorOf(spec, records.probed_links); floor.ok()) {
    usage.floor = *floor;
    usage.over_floor =
        usage.moving_seconds / static_cast<double>(spec.steps()) / floor->seconds;
  } else {
    usage.no_floor = std::string(floor.status().message());
  }
  WatchBusiest(records.readings, &usage);
  return usage;
}

}  // namespace psring
