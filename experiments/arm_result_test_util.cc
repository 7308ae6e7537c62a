#include "experiments/arm_result_test_util.h"

#include <string>

#include "common/job_plan.h"
#include "common/layout.h"

namespace psring {
namespace {

JobSpec MakeSpec(const std::string& name, int workers, int servers) {
  JobSpec spec;
  spec.set_workers(workers);
  spec.set_servers(servers);
  spec.set_steps(2);
  spec.mutable_arm()->set_name(name);
  spec.mutable_experiment()->mutable_training()->set_target_accuracy(0.5);
  spec.mutable_experiment()->mutable_buckets()->set_cap_bytes(28);
  spec.mutable_experiment()->mutable_buckets()->set_first_cap_bytes(12);
  ParameterLayout layout;
  layout.Add("weight", {7, 1});
  layout.Add("bias", {3});
  DescribeLayout(layout, &spec);
  return spec;
}

}  // namespace

JobSpec RingSpec(int workers) {
  JobSpec spec = MakeSpec("ring", workers, 0);
  spec.mutable_arm()->mutable_ring();
  return spec;
}

JobSpec ServersSpec(int workers, int servers, Sync::Order order) {
  JobSpec spec =
      MakeSpec(order == Sync::RING ? "servers" : "servers by rank", workers, servers);
  spec.mutable_arm()->mutable_parameter_server()->mutable_sync()->set_order(order);
  return spec;
}

JobSpec LocalSpec() {
  JobSpec spec = MakeSpec("local", 1, 0);
  spec.mutable_arm()->mutable_local();
  return spec;
}

JobSpec BackupSpec(int workers, int spares) {
  JobSpec spec = MakeSpec("backup", workers, 1);
  spec.mutable_arm()->mutable_parameter_server()->mutable_backup()->set_spares(spares);
  return spec;
}

JobSpec BoundedSpec(int workers, int bound) {
  JobSpec spec = MakeSpec("bounded", workers, 1);
  spec.mutable_arm()->mutable_parameter_server()->mutable_bounded()->set_bound(bound);
  return spec;
}

JobSpec AsyncSpec(int workers) {
  JobSpec spec = MakeSpec("async", workers, 1);
  spec.mutable_arm()->mutable_parameter_server()->mutable_async();
  return spec;
}

JobSpec FixedDelaySpec(int workers, int delay) {
  JobSpec spec = MakeSpec("fixed_delay", workers, 1);
  spec.mutable_arm()->mutable_parameter_server()->mutable_fixed_delay()->set_delay(delay);
  return spec;
}

ArmResult FullArmResult() {
  ArmResult arm;
  arm.name = "servers";
  arm.mode = "parameter server, async";
  arm.seed = 7;
  arm.convergence = Convergence::kReachedTarget;
  arm.steps = 1024;
  arm.workers = 2;
  arm.servers = 1;
  arm.samples_per_second = 12345.6;
  arm.applied_samples_per_second = 12345.6;
  arm.step_ms = {.p50 = 1.5,
                 .p99 = 9,
                 .mean = 2.1,
                 .data = 0.1,
                 .forward = 0.2,
                 .backward = 0.3,
                 .exposed = 0.4,
                 .optimizer = 0.5,
                 .unaccounted = 0.6};
  arm.recording = {.training_thread_share = 0.125, .processor_share = 0.5};
  arm.waiting = {
      .exposed = 0.75, .for_others = 0.625, .for_worker = {{0, 0.125}, {1, 0.5}}};
  arm.final_loss = 0.12345;
  arm.evaluations = {{.step = 512,
                      .seconds = 1.25,
                      .bytes = 100,
                      .loss = 0.75,
                      .accuracy = 0.5,
                      .version_skew = 1},
                     {.step = 1024,
                      .seconds = 2,
                      .bytes = 200,
                      .loss = 0.25,
                      .accuracy = 0.87654,
                      .version_skew = 2}};
  arm.time_to_target_seconds = 2;
  arm.contributions = {.staleness = {.mean = 1.5, .max = 2, .histogram = {1, 1, 4}},
                       .clock_lag_max = 3,
                       .late = 312.5,
                       .stale = 200,
                       .workers = {{.made = 1536,
                                    .applied = 1280,
                                    .late = 156,
                                    .stale = 100,
                                    .staleness_mean = 1.25,
                                    .staleness_max = 2},
                                   {.made = 514,
                                    .applied = 257.5,
                                    .late = 156.5,
                                    .stale = 100,
                                    .staleness_mean = 1.75,
                                    .staleness_max = 1}}};
  arm.buckets = {{.bytes = 12}, {.bytes = 28, .algorithm = RingMode::HALVING_DOUBLING}};
  arm.skipped_buckets = 8;
  arm.endpoints = {{.name = "worker 0",
                    .role = "worker",
                    .steps = 1024,
                    .payload_out = 4 << 20,
                    .payload_in = 2 << 20,
                    .formula_out = 5 << 20,
                    .formula_in = 3 << 20,
                    .initial_out = 6,
                    .initial_in = 7,
                    .snapshot_out = 8,
                    .snapshot_in = 9,
                    .link_out = LinkAudit{.kernel = 100,
                                          .packets = 1,
                                          .payload = 20,
                                          .other_payload = 10,
                                          .framing = 3,
                                          .headers = 66,
                                          .rest = 1,
                                          .resent = 4,
                                          .dropped = 5},
                    .awaiting_bytes_seconds = 0.5,
                    .awaiting_room_seconds = 0.25}};
  arm.hosts = "links of 8 Mbit/s";
  arm.link_usage = LinkUsage{.links = {{.host = "worker 0",
                                        .out = true,
                                        .bit_s = 8'000'000,
                                        .bytes = 2048,
                                        .utilisation = 0.25,
                                        .share_of_steps = 0.125,
                                        .dropped = 5,
                                        .backlog_bytes = 1514}},
                             .busiest = 0,
                             .hot_spot_factor = 1.5,
                             .moving_seconds = 0.5,
                             .idle_processors = 0.0625};
  arm.parameter_digest = 0xabc;
  arm.digests = {{1023, 0xabc}};
  arm.replica = {.verdict = Verdict::kPass, .why = "2 ranks equal"};
  arm.traffic = {.verdict = Verdict::kFail, .why = "worker 0 received too little"};
  arm.consistency = {.verdict = Verdict::kPass, .why = "counted once"};
  return arm;
}

}  // namespace psring
