// parameter_server: one server process of a job.
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/checkpoint.h"
#include "common/coordinator.h"
#include "common/job_plan.h"
#include "common/liveness.h"
#include "common/member_process.h"
#include "common/memory_gauge.h"
#include "common/memory_report.h"
#include "common/process_metrics.h"
#include "common/status_macros.h"
#include "common/time_source.h"
#include "glog/logging.h"
#include "server/parameter_service.h"
#include "server/parameter_shard.h"
#include "server/policies.h"
#include "server/shard_checkpoint.h"

namespace psring {
namespace {

// A parked pull waits a little longer than the coordinator takes to find out who is
// stalled and to say so everywhere: its own error is for when that fails.
constexpr absl::Duration kServerPatience = absl::Seconds(5);

// A server waits for requests where it waits for nothing else.
Activity ActivityOf(const ParameterShard& shard, const ShardSaver& saver) {
  Activity activity;
  activity.set_under_way(true);
  activity.set_step(shard.first_version());
  const std::string awaited = shard.Awaited();
  activity.set_phase(saver.saving() ? "saving" : awaited.empty() ? "serving" : "waiting");
  const ExchangeTraffic traffic = shard.traffic();
  activity.set_progress(traffic.payload_in + traffic.payload_out + saver.bytes());
  if (!saver.saving()) activity.set_awaiting(awaited.empty() ? "requests" : awaited);
  return activity;
}

// Serves until every worker has trained, what is to be evaluated has been fetched, and
// all processes have counted what their connections carried.
absl::Status Serve(const Endpoint& endpoint, const Member& member,
                   ParameterServerHost* host, const ParameterShard& shard,
                   ShardSaver* saver, const MemoryGauges& memory, TimeSinceStart* time,
                   CoordinatorClient& client) {
  ASSIGN_OR_RETURN(const int port, host->Start(HostPort(endpoint.bind, 0)));
  RETURN_IF_ERROR(client.Put(absl::StrCat("endpoint/", ToString(member)),
                             HostPort(endpoint.advertise, port)));
  LOG(INFO) << "serves at " << HostPort(endpoint.advertise, port);
  RETURN_IF_ERROR(client.Barrier("start"));
  time->Start();
  RETURN_IF_ERROR(ReportClock(member, *time, client));
  client.SetActivity([&] { return ActivityOf(shard, *saver); });
  client.SetOrders([saver](const CheckpointOrder& order) { saver->Order(order); });
  const absl::Status trained = client.BarrierWithoutDeadline("trained");
  client.SetOrders(nullptr);
  client.SetActivity(nullptr);
  RETURN_IF_ERROR(trained);
  RETURN_IF_ERROR(ReportClock(member, *time, client));
  RETURN_IF_ERROR(client.BarrierWithoutDeadline("evaluated"));
  client.Report([&](RecordBatch& batch) {
    *batch.add_traffic() = TrafficOf(endpoint, member, shard.traffic());
    AddMemory(member, memory, &batch);
  });
  return client.BarrierWithoutDeadline("counted");
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
  options.local_worker = PeerOnHost(spec, member.rank());
  options.order = mode.sync().order();
  options.ring_order = RingOrderOf(spec);
  options.contributors = ContributorsOf(spec);
  options.optimizer = spec.experiment().training().optimizer();
  options.constants = StepConstantsOf(client);
  options.stale_updates = mode.stale_updates();
  options.steps = spec.steps();
  options.snapshot_interval = spec.experiment().training().evaluation_interval();
  if (spec.has_restored()) options.start = StartOf(spec.restored());
  options.time = &time;
  options.on_contribution = [&client](const ContributionRecord& contribution) {
    client.Report([&](RecordBatch& batch) { *batch.add_contributions() = contribution; });
  };
  MemoryGauges memory;
  options.memory = &memory;
  ASSIGN_OR_RETURN(auto policy, MakePolicy(mode, spec.workers()));
  const int64_t steps_awaited = policy->promise().steps_awaited;
  const auto shard =
      std::make_shared<ParameterShard>(std::move(options), std::move(policy));
  if (spec.has_restored()) {
    ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                     Checkpoint::Open(spec.restored().folder()));
    RETURN_IF_ERROR(RestoreState(checkpoint, shard.get()));
  }
  const MeteredTraffic metered(endpoint.metrics, [&shard] { return shard->traffic(); });
  ShardSaver saver(
      member.rank(), shard,
      [&client](const CheckpointReply& reply) { client.Reply(reply); },
      [&client](const absl::Status& failed) { client.aborts().Abort(failed); });
  const AbortSource::Registration abort(
      &client.aborts(), [&shard](const absl::Status& reason) { shard->Abort(reason); });

  ParameterServerHost::Options host_options;
  host_options.job = spec.job();
  host_options.fingerprint = Fingerprint(spec);
  host_options.wire = spec.arm().wire();
  host_options.stall_timeout =
      SettingsOf(spec.experiment().liveness()).stall * steps_awaited + kServerPatience;
  ParameterServerHost host(host_options, shard);
  return client.Leave(
      Serve(endpoint, member, &host, *shard, &saver, memory, &time, client));
}

}  // namespace
}  // namespace psring

int main(int argc, char** argv) {
  return psring::RunMember(argc, argv, psring::SERVER,
                           "A parameter server: owns a part of the parameters of one job "
                           "and runs the optimizer on it.",
                           psring::Run);
}
