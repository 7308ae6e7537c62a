#include "experiments/report/traffic_picture.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "experiments/report/words.h"
#include "experiments/text.h"

namespace psring {
namespace {

// Links within this factor of the hottest one are as hot.
constexpr double kAlike = 1.1;

// What one process, or all of a host, has on its link.
struct Station {
  std::string name;
  std::string host;
  bool server = false;
  double out_bytes = 0;  // Per step.
  double in_bytes = 0;
};

std::vector<Station> StationsOf(const ArmResult& arm) {
  std::vector<Station> stations;
  for (const EndpointTraffic& endpoint : arm.endpoints) {
    const auto per_step = [&](int64_t bytes) {
      return static_cast<double>(bytes) /
             static_cast<double>(std::max<int64_t>(1, endpoint.steps));
    };
    const double out = per_step(endpoint.payload_out - endpoint.local_payload_out);
    const double in = per_step(endpoint.payload_in - endpoint.local_payload_in);
    const auto same =
        std::find_if(stations.begin(), stations.end(), [&](const Station& station) {
          return !endpoint.host.empty() && station.host == endpoint.host;
        });
    if (same == stations.end()) {
      stations.push_back({.name = endpoint.name,
                          .host = endpoint.host,
                          .server = endpoint.role == "server",
                          .out_bytes = out,
                          .in_bytes = in});
    } else {
      absl::StrAppend(&same->name, " + ", endpoint.name);
      same->out_bytes += out;
      same->in_bytes += in;
    }
  }
  return stations;
}

// The busier of the directions that are asked for.
std::optional<double> UtilisationOf(const ArmResult& arm, const std::string& host,
                                    bool out_alone) {
  if (!arm.link_usage) return std::nullopt;
  std::optional<double> busiest;
  for (const LinkUse& link : arm.link_usage->links) {
    if (link.host != host || (out_alone && !link.out)) continue;
    busiest = std::max(busiest.value_or(0), link.utilisation);
  }
  return busiest;
}

bool SumsInARing(const ArmResult& arm) {
  return arm.servers == 0 &&
         std::all_of(arm.buckets.begin(), arm.buckets.end(), [](const auto& bucket) {
           return bucket.algorithm == RingMode::RING;
         });
}

// Evenly round the middle, from the top, clockwise.
std::pair<double, double> OnCircle(size_t index, size_t count) {
  const double angle =
      2 * std::numbers::pi * static_cast<double>(index) / static_cast<double>(count);
  constexpr double kRadius = 0.78;
  return {kRadius * std::sin(angle), kRadius * std::cos(angle)};
}

// Of `count` on a line, the index-th.
double OnLine(size_t index, size_t count) {
  if (count == 1) return 0;
  return 1.7 * (static_cast<double>(index) / static_cast<double>(count - 1) - 0.5);
}

void DrawStar(const ArmResult& arm, const std::vector<Station>& stations,
              TrafficPicture* picture) {
  const auto servers = static_cast<size_t>(std::count_if(
      stations.begin(), stations.end(), [](const Station& one) { return one.server; }));
  size_t worker = 0;
  size_t server = 0;
  for (const Station& station : stations) {
    TrafficNode node = {.name = station.name, .server = station.server};
    if (servers == 0) {  // All are alike.
      std::tie(node.x, node.y) = OnCircle(worker++, stations.size());
    } else if (station.server) {
      node.x = OnLine(server++, servers);
      node.y = -0.78;
    } else {
      node.x = OnLine(worker++, stations.size() - servers);
      node.y = 0.78;
    }
    picture->links.push_back({.name = station.name,
                              .x1 = node.x,
                              .y1 = node.y,
                              .x2 = 0,
                              .y2 = 0,
                              .out_bytes = station.out_bytes,
                              .in_bytes = station.in_bytes,
                              .utilisation = UtilisationOf(arm, station.host, false)});
    picture->nodes.push_back(std::move(node));
  }
}

void DrawRing(const JobSpec& spec, const ArmResult& arm,
              const std::vector<Station>& stations, TrafficPicture* picture) {
  // From each place in the ring to the rank that has it.
  std::vector<size_t> order;
  for (const int rank : spec.experiment().ring_order()) order.push_back(rank);
  for (size_t rank = order.size(); rank < stations.size(); ++rank) order.push_back(rank);
  const auto position = [&](size_t place) { return OnCircle(place, stations.size()); };
  for (size_t place = 0; place < stations.size(); ++place) {
    const Station& from = stations[order[place]];
    const Station& to = stations[order[(place + 1) % stations.size()]];
    const auto [x1, y1] = position(place);
    auto [x2, y2] = position((place + 1) % stations.size());
    picture->nodes.push_back({.name = from.name, .server = false, .x = x1, .y = y1});
    TrafficLink link = {.name = absl::StrCat(from.name, " to ", to.name),
                        .x1 = x1,
                        .y1 = y1,
                        .x2 = x2,
                        .y2 = y2,
                        .out_bytes = from.out_bytes,
                        .in_bytes = 0,
                        .utilisation = UtilisationOf(arm, from.host, true)};
    if (stations.size() == 2) {  // Two lines beside each other.
      link.x1 = link.x2 = place == 0 ? 0.08 : -0.08;
    }
    picture->links.push_back(std::move(link));
  }
}

std::string Headline(const TrafficPicture& picture) {
  const TrafficLink& link = picture.links[picture.hottest];
  const std::string use =
      link.utilisation
          ? absl::StrCat(", ", RoughPercent(*link.utilisation), " of the time in use")
          : "";
  if (picture.alike) {
    return absl::StrCat("every link alike: ", RoughBytes(link.bytes()), " a step", use);
  }
  return absl::StrCat("hottest link, ", link.name, ": ", RoughBytes(link.bytes()),
                      " a step", link.out_bytes > link.in_bytes ? " out" : " in", use);
}

}  // namespace

std::optional<TrafficPicture> PictureOf(const JobSpec& spec, const ArmResult& arm) {
  const std::vector<Station> stations = StationsOf(arm);
  const bool any = std::any_of(stations.begin(), stations.end(), [](const Station& one) {
    return one.out_bytes + one.in_bytes > 0;
  });
  if (stations.size() < 2 || !any) return std::nullopt;
  TrafficPicture picture = {.arm = arm.name,
                            .ring = SumsInARing(arm),
                            .nodes = {},
                            .links = {},
                            .hottest = 0,
                            .alike = false,
                            .headline = ""};
  if (picture.ring) {
    DrawRing(spec, arm, stations, &picture);
  } else {
    DrawStar(arm, stations, &picture);
  }
  // By bytes: what a link at full speed is used more than another one is noise.
  const auto less = [](const TrafficLink& a, const TrafficLink& b) {
    return a.bytes() < b.bytes();
  };
  const auto& links = picture.links;
  const auto hottest = std::max_element(links.begin(), links.end(), less);
  picture.hottest = static_cast<int>(hottest - links.begin());
  picture.alike = hottest->bytes() <=
                  kAlike * std::min_element(links.begin(), links.end(), less)->bytes();
  picture.headline = Headline(picture);
  return picture;
}

}  // namespace psring
