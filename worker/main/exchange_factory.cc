#include "worker/main/exchange_factory.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/link_delay.h"
#include "common/liveness.h"
#include "common/memory_gauge.h"
#include "common/partition.h"
#include "common/status_macros.h"
#include "common/wire_type.h"
#include "ring/algorithm_by_size.h"
#include "ring/collectives.h"
#include "ring/delayed_transport.h"
#include "ring/grpc_transport.h"
#include "ring/ring_exchange.h"
#include "ring/shared_memory_collectives.h"
#include "ring/tcp_rendezvous.h"
#include "ring/transport_collectives.h"
#include "server/policies.h"
#include "worker/delayed_parameter_channel.h"
#include "worker/grpc_parameter_channel.h"
#include "worker/local_exchange.h"
#include "worker/parameter_server_exchange.h"

namespace psring {
namespace {

// An exchange waits a little longer than the coordinator takes to find out who is stalled
// and to say so everywhere, and longer than servers wait, who know whom they wait for:
// its own error is for when those fail.
constexpr absl::Duration kPatience = absl::Seconds(10);

// What a link with a delay holds in any case.
constexpr int64_t kLeastHeldBytes = 1 << 20;

using MadeExchange = absl::StatusOr<WorkerExchange>;

// Null with fp32, which needs no buffers.
std::shared_ptr<MemoryGauge> WireMemory(const JobSpec& spec, MemoryGauges* memory) {
  if (WireType(spec.arm().wire()).is_fp32()) return nullptr;
  return memory->Of(memory_purpose::kWireBuffers);
}

MadeExchange MakeParameterServerExchange(int rank, const JobPlan& plan,
                                         const TimeSource* time,
                                         CoordinatorClient& client,
                                         MemoryGauges* memory) {
  ASSIGN_OR_RETURN(const auto policy, MakePolicy(client.spec().arm().parameter_server(),
                                                 client.spec().workers()));
  absl::Duration longest = absl::ZeroDuration();
  std::vector<std::unique_ptr<ParameterChannel>> channels;
  for (int server = 0; server < client.spec().servers(); ++server) {
    GrpcParameterChannelOptions options;
    options.job = client.spec().job();
    options.rank = rank;
    options.incarnation = client.incarnation();
    options.fingerprint = Fingerprint(client.spec());
    options.server = server;
    options.stall_timeout = SettingsOf(client.spec().experiment().liveness()).stall *
                                policy->promise().steps_awaited +
                            kPatience;
    ASSIGN_OR_RETURN(options.address,
                     client.Get(absl::StrCat("endpoint/server ", server)));
    auto channel = NewGrpcParameterChannel(std::move(options));
    const absl::Duration delay = DelayToServer(client.spec(), rank, server);
    longest = std::max(longest, delay);
    if (delay > absl::ZeroDuration()) {
      channel =
          std::make_unique<DelayedParameterChannel>(std::move(channel), delay, time);
    }
    channels.push_back(std::move(channel));
  }
  // In lockstep, and in no other mode, every answer waits for all workers.
  int64_t window_bytes = ParameterServerExchange::kNoWindow;
  if (policy->promise().lockstep && client.spec().workers() > 1) {
    window_bytes = ParameterServerExchange::WindowBytes(
        plan.slots, client.spec().workers(), BytesWithin(client.spec(), 2 * longest));
  }
  auto exchange = std::make_unique<ParameterServerExchange>(
      rank, plan.slots, std::move(channels), time, PeerOnHost(client.spec(), rank),
      window_bytes, client.spec().arm().wire(), WireMemory(client.spec(), memory));
  SnapshotReader read =
      [servers = exchange.get()](
          int64_t step, std::span<float> parameters) -> absl::StatusOr<EvaluationRecord> {
    ASSIGN_OR_RETURN(const ParameterServerExchange::SnapshotOrigin origin,
                     servers->ReadSnapshot(step, parameters));
    EvaluationRecord record;
    record.set_step(step);
    record.set_time_ns(absl::ToInt64Nanoseconds(origin.time));
    record.set_version_min(origin.version_min);
    record.set_version_max(origin.version_max);
    return record;
  };
  return WorkerExchange{.exchange = std::move(exchange),
                        .read_snapshot = std::move(read)};
}

// Where the workers' listeners are, by rank.
std::string ListenerKey(int rank) { return absl::StrCat("endpoint/worker ", rank); }

// Listens, says where, and finds the peers that listen for this rank. By TCP and by gRPC
// alike.
template <typename Listener, typename Connect>
absl::StatusOr<std::unique_ptr<Transport>> ConnectRanks(
    const Connect& connect, const Endpoint& endpoint, const RingMember& self,
    const std::vector<int>& peers, bool spin, CoordinatorClient& client) {
  ASSIGN_OR_RETURN(auto listener, Listener::Listen(endpoint.bind, /*port=*/0));
  RETURN_IF_ERROR(
      client.Put(ListenerKey(self.rank), HostPort(endpoint.advertise, listener->port())));
  std::vector<PeerAddress> addresses;
  for (const int peer : peers) {
    PeerAddress& address = addresses.emplace_back(PeerAddress{.rank = peer});
    if (peer < self.rank) continue;  // It comes by itself.
    ASSIGN_OR_RETURN(address.listens_at, client.Get(ListenerKey(peer)));
  }
  return connect(std::move(listener), self, addresses, spin, endpoint.rendezvous_timeout);
}

// As it is, where no link has a delay.
std::unique_ptr<Transport> WithDelays(std::unique_ptr<Transport> transport,
                                      const JobSpec& spec, const TimeSource* time) {
  DelayedTransport::Options options;
  absl::Duration longest = absl::ZeroDuration();
  for (const int peer : transport->peers()) {
    const absl::Duration delay = DelayBetweenWorkers(spec, transport->rank(), peer);
    options.delays[peer] = delay;
    longest = std::max(longest, delay);
  }
  if (longest == absl::ZeroDuration()) return transport;
  // More than what is on its way at full speed, as bytes leave in bursts.
  options.most_held_bytes = kLeastHeldBytes + 2 * BytesWithin(spec, longest);
  return std::make_unique<DelayedTransport>(std::move(transport), std::move(options),
                                            time);
}

absl::StatusOr<std::unique_ptr<Collectives>> ConnectCollectives(
    const Endpoint& endpoint, int rank, const GradientMemory& gradients,
    const TimeSource* time, CoordinatorClient& client) {
  const JobSpec& spec = client.spec();
  const RingMode& settings = spec.arm().ring();
  const absl::Duration stall_timeout =
      SettingsOf(spec.experiment().liveness()).stall + kPatience;
  if (gradients.segment != nullptr) {
    return std::make_unique<SharedMemoryCollectives>(
        gradients.segment,
        SharedMemoryOptions{.order = RingOrderOf(spec),
                            .stall_timeout = stall_timeout,
                            .wait = settings.spin() ? SharedMemoryWait::kSpin
                                                    : SharedMemoryWait::kSleep});
  }
  const CollectiveOptions options = {.order = RingOrderOf(spec),
                                     .algorithm = AlgorithmBySize(settings),
                                     .stall_timeout = stall_timeout,
                                     .job_fingerprint = Fingerprint(spec)};
  std::unique_ptr<Transport> transport;
  if (spec.workers() > 1) {
    RingMember self;
    self.job = spec.job();
    self.rank = rank;
    self.ranks = spec.workers();
    self.layout_fingerprint = options.job_fingerprint;
    self.lanes = static_cast<int>(settings.connections());
    const std::vector<int> peers = LinkedRanks(options, rank);
    if (settings.transport() == RingMode::GRPC) {
      ASSIGN_OR_RETURN(transport,
                       ConnectRanks<GrpcListener>(ConnectPeersOverGrpc, endpoint, self,
                                                  peers, settings.spin(), client));
    } else {
      ASSIGN_OR_RETURN(transport,
                       ConnectRanks<PeerListener>(ConnectPeers, endpoint, self, peers,
                                                  settings.spin(), client));
    }
    transport = WithDelays(std::move(transport), spec, time);
  }
  return std::make_unique<TransportCollectives>(rank, std::move(transport), options);
}

// Where every rank has all of the state: an equal part for each to write.
std::vector<StateSlice> ShareOf(const std::vector<StateSlice>& all, int ranks, int rank) {
  std::vector<StateSlice> share;
  for (const StateSlice& slice : all) {
    const Range part = PartitionRange(slice.range.count, ranks, rank);
    StateSlice& own = share.emplace_back();
    own.range = {.begin = slice.range.begin + part.begin, .count = part.count};
    for (const std::span<float> array : slice.state) {
      own.state.push_back(array.subspan(part.begin, part.count));
    }
  }
  return share;
}

MadeExchange MakeRingExchange(const Endpoint& endpoint, int rank, const JobPlan& plan,
                              const GradientMemory& gradients, const TimeSource* time,
                              CoordinatorClient& client, MemoryGauges* memory) {
  ASSIGN_OR_RETURN(std::unique_ptr<Collectives> collectives,
                   ConnectCollectives(endpoint, rank, gradients, time, client));
  const JobSpec& spec = client.spec();
  std::optional<int> shard;
  if (spec.arm().ring().sharded_optimizer()) shard = RingOrderOf(spec).PositionOf(rank);
  auto exchange = std::make_unique<RingExchange>(
      spec.workers(), plan.buckets, spec.experiment().training().optimizer(),
      StepConstantsOf(client), std::move(collectives), time,
      RingExchangeOptions{.shard = shard,
                          .contributors = ContributorsOf(spec),
                          .wire = spec.arm().wire(),
                          .state_memory = memory->Of(memory_purpose::kOptimizerState),
                          .wire_memory = WireMemory(spec, memory)});
  const std::vector<StateSlice> state = exchange->state();
  return WorkerExchange{
      .exchange = std::move(exchange),
      .steps = spec.steps(),
      .state = state,
      .checkpointed = shard ? state : ShareOf(state, spec.workers(), rank)};
}

}  // namespace

absl::StatusOr<GradientMemory> AllocateGradients(const Endpoint& endpoint, int rank,
                                                 const JobPlan& plan, const JobSpec& spec,
                                                 Device* device) {
  GradientMemory gradients;
  if (!spec.arm().has_ring() ||
      spec.arm().ring().transport() != RingMode::SHARED_MEMORY) {
    ASSIGN_OR_RETURN(gradients.buffer, device->Allocate(plan.layout.count()));
    return gradients;
  }
  ASSIGN_OR_RETURN(gradients.segment,
                   SharedMemorySegment::Open({.job = spec.job(),
                                              .rank = rank,
                                              .ranks = spec.workers(),
                                              .fingerprint = Fingerprint(spec),
                                              .count = plan.layout.count()},
                                             endpoint.rendezvous_timeout));
  gradients.buffer = gradients.segment->buffer();
  return gradients;
}

absl::StatusOr<WorkerExchange> MakeExchange(const Endpoint& endpoint, int rank,
                                            const JobPlan& plan,
                                            const GradientMemory& gradients,
                                            const TimeSource* time,
                                            CoordinatorClient& client,
                                            MemoryGauges* memory) {
  switch (client.spec().arm().mode_case()) {
    case Arm::kParameterServer:
      return MakeParameterServerExchange(rank, plan, time, client, memory);
    case Arm::kRing:
      return MakeRingExchange(endpoint, rank, plan, gradients, time, client, memory);
    case Arm::kLocal: {
      auto exchange = std::make_unique<LocalExchange>(
          plan.buckets, client.spec().experiment().training().optimizer(),
          StepConstantsOf(client), time, memory->Of(memory_purpose::kOptimizerState));
      const std::vector<StateSlice> state = exchange->state();
      return WorkerExchange{.exchange = std::move(exchange),
                            .steps = client.spec().steps(),
                            .state = state,
                            .checkpointed = state};
    }
    case Arm::MODE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("the job's arm has no mode");
}

}  // namespace psring
