#include "worker/main/exchange_factory.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/liveness.h"
#include "common/status_macros.h"
#include "ring/algorithm_by_size.h"
#include "ring/collectives.h"
#include "ring/grpc_transport.h"
#include "ring/ring_exchange.h"
#include "ring/shared_memory_collectives.h"
#include "ring/tcp_rendezvous.h"
#include "ring/transport_collectives.h"
#include "server/policies.h"
#include "worker/grpc_parameter_channel.h"
#include "worker/local_exchange.h"
#include "worker/parameter_server_exchange.h"

namespace psring {
namespace {

// An exchange waits a little longer than the coordinator takes to find out who is stalled
// and to say so everywhere, and longer than servers wait, who know whom they wait for:
// its own error is for when those fail.
constexpr absl::Duration kPatience = absl::Seconds(10);

using MadeExchange = absl::StatusOr<WorkerExchange>;

MadeExchange MakeParameterServerExchange(int rank, const JobPlan& plan,
                                         const TimeSource* time,
                                         CoordinatorClient& client) {
  ASSIGN_OR_RETURN(const auto policy, MakePolicy(client.spec().arm().parameter_server(),
                                                 client.spec().workers()));
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
    channels.push_back(NewGrpcParameterChannel(std::move(options)));
  }
  auto exchange = std::make_unique<ParameterServerExchange>(rank, plan.slots,
                                                            std::move(channels), time);
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

absl::StatusOr<std::unique_ptr<Collectives>> ConnectCollectives(
    const Endpoint& endpoint, int rank, const GradientMemory& gradients,
    CoordinatorClient& client) {
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
  }
  return std::make_unique<TransportCollectives>(rank, std::move(transport), options);
}

MadeExchange MakeRingExchange(const Endpoint& endpoint, int rank, const JobPlan& plan,
                              const GradientMemory& gradients, const TimeSource* time,
                              CoordinatorClient& client) {
  ASSIGN_OR_RETURN(std::unique_ptr<Collectives> collectives,
                   ConnectCollectives(endpoint, rank, gradients, client));
  const JobSpec& spec = client.spec();
  return WorkerExchange{
      .exchange = std::make_unique<RingExchange>(
          spec.workers(), plan.buckets, spec.experiment().training().optimizer(),
          StepConstantsOf(client), std::move(collectives), time),
      .steps = spec.steps()};
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
                                            CoordinatorClient& client) {
  switch (client.spec().arm().mode_case()) {
    case Arm::kParameterServer:
      return MakeParameterServerExchange(rank, plan, time, client);
    case Arm::kRing:
      return MakeRingExchange(endpoint, rank, plan, gradients, time, client);
    case Arm::kLocal:
      return WorkerExchange{
          .exchange = std::make_unique<LocalExchange>(
              plan.buckets, client.spec().experiment().training().optimizer(),
              StepConstantsOf(client), time),
          .steps = client.spec().steps()};
    case Arm::MODE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("the job's arm has no mode");
}

}  // namespace psring
