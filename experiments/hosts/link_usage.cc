#include "experiments/hosts/link_usage.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "experiments/hosts/host_plan.h"
#include "experiments/hosts/link_reading.h"

namespace psring {
namespace {

// Until the last step of the slowest worker has ended.
double TrainingSeconds(const ArmRecords& records) {
  int64_t end_ns = 0;
  for (const auto& rank : records.steps) {
    if (rank.empty()) continue;
    end_ns = std::max(end_ns, rank.back().start_ns() + rank.back().total_ns());
  }
  return static_cast<double>(end_ns) / 1e9;
}

double Share(int64_t part, int64_t rest) {
  return part == 0 ? 0 : static_cast<double>(part) / static_cast<double>(part + rest);
}

// What share of the payload on a link the steps have.
double ShareOfSteps(const LinkDirection& link,
                    const std::vector<EndpointTraffic>& endpoints) {
  int64_t steps = 0;
  int64_t others = 0;
  for (const EndpointTraffic& endpoint : endpoints) {
    if (endpoint.name == link.host) {
      return link.out
                 ? Share(endpoint.payload_out,
                         endpoint.initial_out + endpoint.snapshot_out)
                 : Share(endpoint.payload_in, endpoint.initial_in + endpoint.snapshot_in);
    }
    steps += endpoint.payload_out;
    others += endpoint.initial_out + endpoint.snapshot_out;
  }
  return Share(steps, others);  // A link between racks is nobody's own.
}

double HotSpotFactor(const std::vector<LinkUse>& links) {
  std::map<std::string, double> larger;
  for (const LinkUse& link : links) {
    if (absl::StartsWith(link.host, "rack")) continue;
    double& bytes = larger[link.host];
    bytes = std::max(bytes, link.bytes);
  }
  double most = 0;
  double workers = 0;
  double sum = 0;
  for (const auto& [host, bytes] : larger) {
    most = std::max(most, bytes);
    if (!absl::StartsWith(host, "worker")) continue;
    ++workers;
    sum += bytes;
  }
  return sum == 0 ? 0 : most / (sum / workers);
}

// Null: it was not read.
const LinkReading* Find(const HostsReading& reading, const LinkUse& link) {
  const auto found = std::find_if(reading.links.begin(), reading.links.end(),
                                  [&link](const LinkReading& read) {
                                    return read.host == link.host && read.out == link.out;
                                  });
  return found == reading.links.end() ? nullptr : &*found;
}

// Over the intervals between readings in which the link has carried something.
double IdleWhileInUse(const std::vector<HostsReading>& readings, const LinkUse& link) {
  absl::Duration idle = absl::ZeroDuration();
  absl::Duration total = absl::ZeroDuration();
  for (size_t i = 1; i < readings.size(); ++i) {
    const HostsReading& before = readings[i - 1];
    const HostsReading& after = readings[i];
    const LinkReading* const was = Find(before, link);
    const LinkReading* const is = Find(after, link);
    if (was == nullptr || is == nullptr || was->bytes == is->bytes) continue;
    idle += after.idle - before.idle;
    total += after.processors - before.processors;
  }
  return total == absl::ZeroDuration() ? 0 : absl::FDivDuration(idle, total);
}

}  // namespace

std::optional<LinkUsage> LinkUsageOf(const JobSpec& spec, const ArmRecords& records,
                                     const std::vector<EndpointTraffic>& endpoints) {
  const double training = TrainingSeconds(records);
  if (!OnHosts(spec) || records.readings.empty() || training == 0 ||
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
    use.share_of_steps = seconds / training;
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
  usage.hot_spot_factor = HotSpotFactor(usage.links);
  usage.idle_processors = IdleWhileInUse(records.readings, *busiest);
  return usage;
}

}  // namespace psring
