// parameter_server: one server process of a job.
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/coordinator.h"
#include "common/job_plan.h"
#include "common/liveness.h"
#include "common/member_process.h"
#include "common/status_macros.h"
#include "common/time_source.h"
#include "glog/logging.h"
#include "server/parameter_service.h"
#include "server/parameter_shard.h"
#include "server/policies.h"

namespace psring {
namespace {

// A parked pull waits a little longer than the coordinator takes to find out who is
// stalled and to say so everywhere: its own error is for when that fails.
constexpr absl::Duration kServerPatience = absl::Seconds(5);

// A server waits for requests where it waits for nothing else.
Activity ActivityOf(const ParameterShard& shard) {
  Activity activity;
  activity.set_under_way(true);
  activity.set_step(shard.first_version());
  const std::string awaited = shard.Awaited();
  activity.set_phase(awaited.empty() ? "serving" : "waiting");
  const ExchangeTraffic traffic = shard.traffic();
  activity.set_progress(traffic.payload_in + traffic.payload_out);
  activity.set_awaiting(awaited.empty() ? "requests" : awaited);
  return activity;
}

// Serves until every worker has trained and what is to be evaluated has been fetched.
absl::Status Serve(const Endpoint& endpoint, const Member& member,
                   ParameterServerHost* host, const ParameterShard& shard,
                   TimeSinceStart* time, CoordinatorClient& client) {
  ASSIGN_OR_RETURN(const int port, host->Start(HostPort(endpoint.bind, 0)));
  RETURN_IF_ERROR(client.Put(absl::StrCat("endpoint/", ToString(member)),
                             HostPort(endpoint.advertise, port)));
  LOG(INFO) << "serves at " << HostPort(endpoint.advertise, port);
  RETURN_IF_ERROR(client.Barrier("start"));
  time->Start();
  client.SetActivity([&shard] { return ActivityOf(shard); });
  const absl::Status trained = client.BarrierWithoutDeadline("trained");
  client.SetActivity(nullptr);
  RETURN_IF_ERROR(trained);
  return client.BarrierWithoutDeadline("evaluated");
}

absl::Status Run(const Endpoint& endpoint, const Member& member,
                 CoordinatorClient& client) {
  const JobSpec& spec = client.spec();
  const ParameterServerMode& mode = spec.arm().parameter_server();
  const JobPlan plan = PlanJob(spec);
  TimeSinceStart time;
  ParameterShard::Options options =
      ParameterShard::OptionsFor(plan.buckets, plan.slots, member.rank());
  options.workers = spec.workers();
  options.order = mode.sync().order();
  options.ring_order = RingOrderOf(spec);
  options.optimizer = spec.experiment().training().optimizer();
  options.constants = StepConstantsOf(client);
  options.stale_updates = mode.stale_updates();
  options.steps = spec.steps();
  options.snapshot_interval = spec.experiment().training().evaluation_interval();
  options.time = &time;
  options.on_contribution = [&client](const ContributionRecord& contribution) {
    client.Report([&](RecordBatch& batch) { *batch.add_contributions() = contribution; });
  };
  ASSIGN_OR_RETURN(auto policy, MakePolicy(mode, spec.workers()));
  const auto shard =
      std::make_shared<ParameterShard>(std::move(options), std::move(policy));
  const AbortSource::Registration abort(
      &client.aborts(), [&shard](const absl::Status& reason) { shard->Abort(reason); });

  ParameterServerHost::Options host_options;
  host_options.job = spec.job();
  host_options.fingerprint = Fingerprint(spec);
  host_options.stall_timeout =
      SettingsOf(spec.experiment().liveness()).stall + kServerPatience;
  ParameterServerHost host(host_options, shard);
  const absl::Status served = Serve(endpoint, member, &host, *shard, &time, client);
  LOG(INFO) << "parameter buffers took at most " << shard->parameter_memory().peak()
            << " bytes";
  client.Report([&](RecordBatch& batch) {
    *batch.add_traffic() = TrafficOf(member, shard->traffic());
  });
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
