// Who an arm's processes talk to, and how much: points and lines in a plane. Pure.
#ifndef PSRING_EXPERIMENTS_REPORT_TRAFFIC_PICTURE_H_
#define PSRING_EXPERIMENTS_REPORT_TRAFFIC_PICTURE_H_

#include <optional>
#include <string>
#include <vector>

#include "experiments/arm_result.h"
#include "proto/coordinator.pb.h"

namespace psring {

// Both axes go from -1 to 1, y upwards.
struct TrafficNode {
  std::string name;  // "worker 1", "worker 1 + server 1" of one host.
  bool server = false;
  double x = 0;
  double y = 0;
};

struct TrafficLink {
  std::string name;  // "server 0", "worker 0 to worker 1".
  double x1 = 0;
  double y1 = 0;
  double x2 = 0;
  double y2 = 0;
  double out_bytes = 0;  // Payload per step; of a ring's link, in its one direction.
  double in_bytes = 0;
  // Of the emulated host's link, the busier direction, while bytes moved; none where the
  // arm had no such hosts.
  std::optional<double> utilisation = std::nullopt;

  double bytes() const { return out_bytes > in_bytes ? out_bytes : in_bytes; }
};

struct TrafficPicture {
  std::string arm;
  bool ring = false;
  std::vector<TrafficNode> nodes;
  // With servers, and with collectives other than rings: of each process or host its own
  // link, which leads to the middle. Of a ring: from each rank to the next.
  std::vector<TrafficLink> links;
  int hottest = 0;       // The index of the link that is used most.
  bool alike = false;    // All links are used as much as that one.
  std::string headline;  // Says so, with numbers.
};

// None where nothing was exchanged.
std::optional<TrafficPicture> PictureOf(const JobSpec& spec, const ArmResult& arm);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_REPORT_TRAFFIC_PICTURE_H_
