// All parameter servers of a job in this process, and channels to them of either kind.
#ifndef PSRING_TESTS_PARAMETER_SERVER_CLUSTER_H_
#define PSRING_TESTS_PARAMETER_SERVER_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/contributors.h"
#include "common/layout.h"
#include "common/ring_order.h"
#include "common/slot_plan.h"
#include "common/time_source.h"
#include "common/wire_type.h"
#include "proto/experiment.pb.h"
#include "proto/record.pb.h"
#include "server/parameter_service.h"
#include "server/parameter_shard.h"
#include "tests/plain_parameter_server.h"
#include "worker/parameter_channel.h"

namespace psring {

enum class ChannelKind {
  kInProcess,
  kGrpc,         // Channel and server as in production.
  kDelayed,      // The same, with a delay of a millisecond each way.
  kPlainClient,  // A plain generated client to our server.
  kPlainServer,  // Our channel to a plain generated server.
  kPlain,        // Both plain.
};
std::string ChannelKindName(ChannelKind kind);

// From text format: "backup { spares: 1 }".
ParameterServerMode ModeOf(const std::string& text);

// Server k and worker k count what they exchange as that of one host. Channels must be
// gone before the cluster.
class ParameterServerCluster {
 public:
  struct Options {
    ChannelKind kind = ChannelKind::kInProcess;
    BucketPlan buckets;
    ParameterLayout layout = {};  // Of the buckets, where the mode places whole tensors.
    int servers = 1;
    int64_t max_slot_bytes = kMaxSlotBytes;
    int workers = 1;
    ParameterServerMode mode;  // Default: sync, in ring order.
    std::optional<RingOrder> ring_order = std::nullopt;
    std::optional<Contributors> contributors = std::nullopt;
    Optimizer optimizer;
    int64_t steps = 10;  // Of the run, which ends after workers * steps contributions.
    // The rest as in ParameterShard::Options.
    int64_t snapshot_interval = 0;
    WireType wire = {};
    std::function<void(const ContributionRecord&)> on_contribution = nullptr;
  };
  explicit ParameterServerCluster(const Options& options);

  const SlotPlan& plan() const { return plan_; }
  const WireType& wire() const { return wire_; }
  ParameterShard& shard(int server) { return *shards_[server]; }
  int64_t parked_pulls() const;
  // `incarnation` is only known to servers of ours.
  std::unique_ptr<ParameterChannel> NewChannel(int rank, int server,
                                               uint64_t incarnation = 0);
  // One to every server.
  std::vector<std::unique_ptr<ParameterChannel>> NewChannels(int rank);

 private:
  const ChannelKind kind_;
  const RealTime time_;
  const SlotPlan plan_;
  const WireType wire_;
  std::vector<std::shared_ptr<ParameterShard>> shards_;
  // One of these, or none in process.
  std::vector<std::unique_ptr<ParameterServerHost>> hosts_;
  std::vector<std::unique_ptr<PlainParameterServer>> plain_servers_;
  std::vector<std::string> addresses_;
};

}  // namespace psring

#endif  // PSRING_TESTS_PARAMETER_SERVER_CLUSTER_H_
