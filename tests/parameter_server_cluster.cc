#include "tests/parameter_server_cluster.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/computed_step_constants.h"
#include "glog/logging.h"
#include "google/protobuf/text_format.h"
#include "server/policies.h"
#include "tests/in_process_parameter_channel.h"
#include "tests/plain_parameter_channel.h"
#include "worker/delayed_parameter_channel.h"
#include "worker/grpc_parameter_channel.h"

namespace psring {

std::string ChannelKindName(ChannelKind kind) {
  switch (kind) {
    case ChannelKind::kInProcess:
      return "InProcess";
    case ChannelKind::kGrpc:
      return "Grpc";
    case ChannelKind::kDelayed:
      return "Delayed";
    case ChannelKind::kPlainClient:
      return "PlainClient";
    case ChannelKind::kPlainServer:
      return "PlainServer";
    case ChannelKind::kPlain:
      return "Plain";
  }
  LOG(FATAL) << "no channel kind";
}

ParameterServerMode ModeOf(const std::string& text) {
  ParameterServerMode mode;
  CHECK(google::protobuf::TextFormat::ParseFromString(text, &mode)) << text;
  return mode;
}

ParameterServerCluster::ParameterServerCluster(const Options& options)
    : kind_(options.kind),
      plan_(PlanSlots(options.layout, options.buckets, options.servers,
                      options.mode.placement(), options.max_slot_bytes)),
      wire_(options.wire) {
  for (int server = 0; server < options.servers; ++server) {
    ParameterShard::Options shard =
        ParameterShard::OptionsFor(options.buckets, plan_, server);
    shard.workers = options.workers;
    shard.local_worker = server;  // Wherever there is one of that rank.
    shard.order = options.mode.sync().order();
    shard.ring_order = options.ring_order;
    shard.contributors = options.contributors;
    shard.stale_updates = options.mode.stale_updates();
    shard.optimizer = options.optimizer;
    auto policy = MakePolicy(options.mode, options.workers);
    CHECK(policy.ok()) << policy.status();
    shard.constants = std::make_shared<ComputedStepConstants>(
        options.optimizer, options.steps, options.workers,
        (*policy)->promise().contributions_per_update);
    shard.steps = options.steps;
    shard.snapshot_interval = options.snapshot_interval;
    shard.time = &time_;
    shard.on_contribution = options.on_contribution;
    shards_.push_back(
        std::make_shared<ParameterShard>(std::move(shard), *std::move(policy)));
    if (kind_ == ChannelKind::kInProcess) continue;
    if (kind_ == ChannelKind::kPlainServer || kind_ == ChannelKind::kPlain) {
      plain_servers_.push_back(
          std::make_unique<PlainParameterServer>(shards_.back(), wire_));
      addresses_.push_back(plain_servers_.back()->address());
      continue;
    }
    hosts_.push_back(std::make_unique<ParameterServerHost>(
        ParameterServerHost::Options{.job = "test", .wire = wire_}, shards_.back()));
    const absl::StatusOr<int> port = hosts_.back()->Start("127.0.0.1:0");
    CHECK(port.ok()) << port.status();
    addresses_.push_back(absl::StrCat("127.0.0.1:", *port));
  }
}

int64_t ParameterServerCluster::parked_pulls() const {
  int64_t count = 0;
  for (const auto& shard : shards_) count += shard->parked_pulls();
  return count;
}

std::unique_ptr<ParameterChannel> ParameterServerCluster::NewChannel(
    int rank, int server, uint64_t incarnation) {
  if (kind_ == ChannelKind::kInProcess) {
    return std::make_unique<InProcessParameterChannel>(rank, server, shards_[server],
                                                       wire_);
  }
  if (kind_ == ChannelKind::kPlainClient || kind_ == ChannelKind::kPlain) {
    return NewPlainParameterChannel(rank, addresses_[server]);
  }
  std::unique_ptr<ParameterChannel> channel =
      NewGrpcParameterChannel({.job = "test",
                               .rank = rank,
                               .incarnation = incarnation,
                               .server = server,
                               .address = addresses_[server]});
  if (kind_ != ChannelKind::kDelayed) return channel;
  return std::make_unique<DelayedParameterChannel>(std::move(channel),
                                                   absl::Milliseconds(1), &time_);
}

std::vector<std::unique_ptr<ParameterChannel>> ParameterServerCluster::NewChannels(
    int rank) {
  std::vector<std::unique_ptr<ParameterChannel>> channels;
  for (int server = 0; server < plan_.servers; ++server) {
    channels.push_back(NewChannel(rank, server));
  }
  return channels;
}

}  // namespace psring
