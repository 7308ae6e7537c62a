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
  spec.mutable_experiment()->mutable_training()->mutable_optimizer()->mutable_sgd();
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
                 .not_ready = 0.05,
                 .peer_late = 0.2,
                 .on_wire = 0.1,
                 .working = 0.05,
                 .optimizer = 0.5,
                 .unaccounted = 0.6};
  arm.recording = {.training_thread_share = 0.125, .processor_share = 0.5};
  arm.waiting = {
      .exposed = 0.75, .peer_late = 0.625, .for_worker = {{0, 0.125}, {1, 0.5}}};
  arm.communication = {.buckets = {{.launched = 0.25,
                                    .milliseconds = 1.5,
                                    .working_ms = 0.5,
                                    .overlap_ratio = 0.75,
                                    .arrival_skew_ms = 0.125},
                                   {.launched = 1, .milliseconds = 2, .working_ms = 1}},
                       .first_launch = 0.25,
                       .overlap_ratio = 0.375,
                       .arrival_skew = ArrivalSkew{.worker_ms = {0.5, 0},
                                                   .mean_ms = 0.25,
                                                   .max_ms = 4,
                                                   .last = 1,
                                                   .last_share = 0.9375,
                                                   .error_ms = 0.0625}};
  arm.late_share = 0.25;
  arm.wire = {.type = "bf16",
              .drift_max = 0.00390625,
              .drift_mean = 0.001953125,
              .fp32_arm = "servers32",
              .loss_over_fp32 = -0.0625};
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
  arm.server_imbalance = 1.5;
  arm.endpoints = {{.name = "worker 0",
                    .role = "worker",
                    .steps = 1024,
                    .payload_out = 4 << 20,
                    .payload_in = 2 << 20,
                    .formula_out = 5 << 20,
                    .formula_in = 3 << 20,
                    .formula_operations = 16,
                    .initial_out = 6,
                    .initial_in = 7,
                    .snapshot_out = 8,
                    .snapshot_in = 9,
                    .local_payload_out = 10,
                    .local_payload_in = 11,
                    .local_formula_out = 12,
                    .local_formula_in = 13,
                    .local_other_out = 14,
                    .local_other_in = 15,
                    .host = "worker 0",
                    .link_out = LinkAudit{.kernel = 100,
                                          .packets = 1,
                                          .formula = 21,
                                          .payload = 20,
                                          .other_payload = 10,
                                          .framing = 3,
                                          .headers = 66,
                                          .rest = 1,
                                          .resent = 4,
                                          .dropped = 5},
                    .awaiting_bytes_seconds = 0.5,
                    .awaiting_room_seconds = 0.25}};
  arm.memory_use = {
      {.name = "worker 0",
       .role = "worker",
       .reported = true,
       .uses = {{.purpose = "gradients", .bytes = 40, .budget = 44},
                {.purpose = "contributions", .bytes = 50, .budget = 60, .exact = false},
                {.purpose = "other", .bytes = 4}},
       .resident = 1000}};
  arm.hosts = "links of 8 Mbit/s";
  arm.link_usage =
      LinkUsage{.links = {{.host = "worker 0",
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
                .floor = StepFloor{.seconds = 0.375, .host = "server 0", .out = true},
                .over_floor = 1.75,
                .intervals_in_use = 3,
                .seconds_in_use = 0.75,
                .idle_processors = 0.0625,
                .peak_utilisation = 0.375};
  arm.validity = Validity{.kind = Validity::Kind::kVoid,
                          .cause = "processors",
                          .why = "the processors were idle 6.2 % of the time"};
  arm.parameter_digest = 0xabc;
  arm.digests = {{1023, 0xabc}};
  arm.replica = {.verdict = Verdict::kPass, .why = "2 ranks equal"};
  arm.traffic = {.verdict = Verdict::kFail, .why = "worker 0 received too little"};
  arm.memory = {.verdict = Verdict::kPass, .why = "as budgeted"};
  arm.consistency = {.verdict = Verdict::kPass, .why = "counted once"};
  return arm;
}

}  // namespace psring
