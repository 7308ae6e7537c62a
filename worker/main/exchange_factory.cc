#include "worker/main/exchange_factory.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/liveness.h"
#include "common/status_macros.h"
#include "ring/ring_exchange.h"
#include "ring/ring_schedule.h"
#include "ring/tcp_rendezvous.h"
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

MadeExchange MakeRingExchange(const Endpoint& endpoint, int rank, const JobPlan& plan,
                              const TimeSource* time, CoordinatorClient& client) {
  const JobSpec& spec = client.spec();
  const int ranks = spec.workers();
  const uint64_t fingerprint = Fingerprint(spec);
  std::unique_ptr<Transport> transport;
  if (ranks > 1) {
    ASSIGN_OR_RETURN(auto listener, RingListener::Listen(endpoint.bind, /*port=*/0));
    RETURN_IF_ERROR(client.Put(absl::StrCat("endpoint/worker ", rank),
                               HostPort(endpoint.advertise, listener->port())));
    ASSIGN_OR_RETURN(const std::string right,
                     client.Get(absl::StrCat("endpoint/worker ", RightOf(rank, ranks))));
    RingMember self;
    self.job = spec.job();
    self.rank = rank;
    self.ranks = ranks;
    self.layout_fingerprint = fingerprint;
    ASSIGN_OR_RETURN(transport, ConnectRing(std::move(listener), self, right,
                                            endpoint.rendezvous_timeout));
  }
  RingOptions options;
  options.job_fingerprint = fingerprint;
  options.stall_timeout = SettingsOf(spec.experiment().liveness()).stall + kPatience;
  return WorkerExchange{
      .exchange = std::make_unique<RingExchange>(
          rank, ranks, plan.buckets, spec.experiment().training().optimizer(),
          StepConstantsOf(client), std::move(transport), options, time),
      .steps = spec.steps()};
}

}  // namespace

absl::StatusOr<WorkerExchange> MakeExchange(const Endpoint& endpoint, int rank,
                                            const JobPlan& plan, const TimeSource* time,
                                            CoordinatorClient& client) {
  switch (client.spec().arm().mode_case()) {
    case Arm::kParameterServer:
      return MakeParameterServerExchange(rank, plan, time, client);
    case Arm::kRing:
      return MakeRingExchange(endpoint, rank, plan, time, client);
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
