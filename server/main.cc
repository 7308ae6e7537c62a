// parameter_server: one server process of a job.
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/coordinator.h"
#include "common/job_plan.h"
#include "common/member_process.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "server/parameter_service.h"
#include "server/parameter_shard.h"
#include "server/sync_policy.h"

namespace psring {
namespace {

// Serves until every worker has trained.
absl::Status Serve(const Endpoint& endpoint, const Member& member,
                   ParameterServerHost* host, CoordinatorClient& client) {
  ASSIGN_OR_RETURN(const int port, host->Start(HostPort(endpoint.bind, 0)));
  RETURN_IF_ERROR(client.Put(absl::StrCat("endpoint/", ToString(member)),
                             HostPort(endpoint.advertise, port)));
  LOG(INFO) << "serves at " << HostPort(endpoint.advertise, port);
  RETURN_IF_ERROR(client.Barrier("start"));
  return client.BarrierWithoutDeadline("trained");
}

absl::Status Run(const Endpoint& endpoint, const Member& member,
                 CoordinatorClient& client) {
  const JobSpec& spec = client.spec();
  const JobPlan plan = PlanJob(spec);
  ParameterShard::Options options =
      ParameterShard::OptionsFor(plan.buckets, plan.slots, member.rank());
  options.workers = spec.workers();
  options.order = spec.arm().parameter_server().sync().order();
  options.optimizer = spec.experiment().training().optimizer();
  const auto shard = std::make_shared<ParameterShard>(std::move(options),
                                                      std::make_unique<SyncPolicy>());
  const AbortSource::Registration abort(
      &client.aborts(), [&shard](const absl::Status& reason) { shard->Abort(reason); });

  ParameterServerHost::Options host_options;
  host_options.job = spec.job();
  host_options.fingerprint = Fingerprint(spec);
  ParameterServerHost host(host_options, shard);
  const absl::Status served = Serve(endpoint, member, &host, client);
  LOG(INFO) << "parameter buffers took at most " << shard->parameter_memory().peak()
            << " bytes";
  client.Report(TrafficOf(member, shard->traffic()));
  return client.Leave(served);
}

}  // namespace
}  // namespace psring

int main(int argc, char** argv) {
  return psring::RunMember(argc, argv, psring::SERVER,
                           "A parameter server: owns a part of the parameters of one job "
                           "and runs the optimizer on it.",
                           psring::Run);
}
