// Who is dead, and who holds everyone up. Pure: the time is an argument.
#ifndef PSRING_COMMON_LIVENESS_H_
#define PSRING_COMMON_LIVENESS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "proto/coordinator.pb.h"
#include "proto/experiment.pb.h"

namespace psring {

struct LivenessSettings {
  absl::Duration heartbeat = absl::Seconds(1);
  absl::Duration dead = absl::Seconds(10);
  absl::Duration stall = absl::Seconds(30);
};
// Fields that are not set have their defaults.
LivenessSettings SettingsOf(const Liveness& liveness);

// Judges the members of a job by their heartbeats. Two different verdicts, both
// kUnavailable with exit code 5:
//   dead: not heard of for settings.dead. Its process or host is gone, frozen or cut off.
//   stalled: heard of, under way, and without progress for settings.stall while waiting
//     for nobody: it holds up those who wait. Where all who are without progress wait
//     (for each other), all are named.
// Either error says who (role, rank, process, host), at which step, doing what, and what
// the others were waiting for.
//
// Times are on one monotonic clock. Time in which Check itself was not called (the
// observer was stopped) counts against nobody. Not thread-safe.
class LivenessJudge {
 public:
  explicit LivenessJudge(const LivenessSettings& settings) : settings_(settings) {}

  // `name` is used in errors. Once per member, which is heard of from now on.
  void Join(const std::string& name, absl::Duration now);
  void Hear(const std::string& name, const Activity& activity, absl::Duration now);
  // The member has ended or is known to be lost; it is judged no more.
  void Leave(const std::string& name);

  struct Findings {
    absl::Status error;                 // The first one found, or OK.
    std::vector<std::string> warnings;  // Each is given once until there is progress.
  };
  // To be called a few times a second.
  Findings Check(absl::Duration now);

 private:
  struct Watched {
    absl::Duration heard;     // Last heartbeat.
    absl::Duration advanced;  // Last progress.
    bool warned = false;      // Since then.
    Activity activity;
  };

  void ForgiveOwnAbsence(absl::Duration now);
  absl::Status FindDead(absl::Duration now) const;
  void FindStalled(absl::Duration now, Findings* findings);
  // Members under way that have made no progress for so long.
  std::vector<std::string> StuckFor(absl::Duration duration, absl::Duration now) const;
  // Who is to blame where anyone is stuck for `duration`: those of the stuck who wait for
  // nobody. Without any, all of the stuck, but not while anyone gets on, who may be the
  // one they wait for: a wait may last for several steps of others.
  std::vector<std::string> Culprits(absl::Duration duration, absl::Duration now) const;

  const LivenessSettings settings_;
  std::map<std::string, Watched> members_;
  absl::Duration last_check_ = -absl::InfiniteDuration();
};

// "step 12, waiting for bucket 1 of left neighbour worker 0"
std::string Describe(const Activity& activity);

}  // namespace psring

#endif  // PSRING_COMMON_LIVENESS_H_
