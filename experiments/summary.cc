#include "experiments/summary.h"

#include <cmath>
#include <optional>

#include "absl/strings/str_format.h"
#include "experiments/arm_runs.h"
#include "experiments/communication.h"
#include "experiments/compute_config.h"
#include "experiments/probe/probe_report.h"
#include "experiments/ring_config.h"
#include "nlohmann/json.hpp"

namespace psring {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinities and no NaN; a diverged loss becomes null.
Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

template <typename Value>
Json OrNull(const std::optional<Value>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// Appends what became of the contributions, where there are any.
void AddContributions(const ArmResult& run, Json* json) {
  const ContributionSummary& all = run.contributions;
  const bool servers = run.servers > 0;
  (*json)["staleness"] = servers ? Json{{"mean", all.staleness.mean},
                                        {"max", all.staleness.max},
                                        {"histogram", all.staleness.histogram}}
                                 : Json(nullptr);
  (*json)["clock_lag_max"] = servers ? Json(all.clock_lag_max) : Json(nullptr);
  (*json)["dropped"] = servers ? Json{{"total", all.late + all.stale},
                                      {"late", all.late},
                                      {"stale", all.stale}}
                               : Json(nullptr);
  (*json)["contributions"] = Json::array();
  for (size_t rank = 0; rank < all.workers.size(); ++rank) {
    const WorkerContributions& worker = all.workers[rank];
    (*json)["contributions"].push_back({{"worker", rank},
                                        {"made", worker.made},
                                        {"applied", worker.applied},
                                        {"dropped", worker.late + worker.stale},
                                        {"staleness_mean", worker.staleness_mean},
                                        {"staleness_max", worker.staleness_max}});
  }
}

// Of a bucket, what there is where it was exchanged.
Json BucketJson(const ArmResult& run, size_t index) {
  const PlannedBucket& planned = run.buckets[index];
  Json json = {{"bytes", planned.bytes},
               {"algorithm", planned.algorithm ? Json(AlgorithmName(*planned.algorithm))
                                               : Json(nullptr)}};
  if (index >= run.communication.buckets.size()) return json;
  const BucketCommunication& bucket = run.communication.buckets[index];
  json["launched"] = bucket.launched;
  json["communication_ms"] = bucket.milliseconds;
  json["working_ms"] = bucket.working_ms;
  json["overlap_ratio"] = OrNull(bucket.overlap_ratio);
  json["arrival_skew_ms"] = bucket.arrival_skew_ms;
  return json;
}

void AddCommunication(const Communication& communication, Json* json) {
  (*json)["first_launch"] = communication.first_launch;
  (*json)["overlap_ratio"] = OrNull(communication.overlap_ratio);
  const std::optional<ArrivalSkew>& skew = communication.arrival_skew;
  (*json)["arrival_skew"] =
      !skew ? Json(nullptr)
            : Json{{"mean_ms", skew->mean_ms},       {"max_ms", skew->max_ms},
                   {"worker_ms", skew->worker_ms},   {"last", skew->last},
                   {"last_share", skew->last_share}, {"error_ms", skew->error_ms}};
}

Json LinkJson(const std::optional<LinkAudit>& link) {
  if (!link) return nullptr;
  return {{"kernel", link->kernel},
          {"formula", link->formula},
          {"payload", link->payload},
          {"other_payload", link->other_payload},
          {"framing", link->framing ? Json(*link->framing) : Json(nullptr)},
          {"headers", link->headers},
          {"rest", link->rest},
          {"packets", link->packets},
          {"resent", link->resent},
          {"dropped", link->dropped}};
}

Json UsageJson(const std::optional<LinkUsage>& usage) {
  if (!usage) return nullptr;
  Json json = {
      {"busiest", usage->busiest},
      {"hot_spot_factor", usage->hot_spot_factor},
      {"moving_seconds", usage->moving_seconds},
      {"floor_ms", usage->floor ? Json(usage->floor->seconds * 1e3) : Json(nullptr)},
      {"floor_host", usage->floor ? Json(usage->floor->host) : Json(nullptr)},
      {"floor_direction",
       usage->floor ? Json(usage->floor->out ? "out" : "in") : Json(nullptr)},
      {"over_floor", usage->floor ? Json(usage->over_floor) : Json(nullptr)},
      {"intervals_in_use", usage->intervals_in_use},
      {"seconds_in_use", usage->seconds_in_use},
      {"idle_processors", usage->idle_processors},
      {"peak_utilisation", usage->peak_utilisation},
      {"links", Json::array()}};
  for (const LinkUse& link : usage->links) {
    json["links"].push_back({{"host", link.host},
                             {"direction", link.out ? "out" : "in"},
                             {"bit_s", link.bit_s},
                             {"bytes", link.bytes},
                             {"utilisation", link.utilisation},
                             {"share_of_steps", link.share_of_steps},
                             {"backlog_bytes", link.backlog_bytes},
                             {"dropped", link.dropped}});
  }
  return json;
}

Json ValidityJson(const std::optional<Validity>& validity) {
  if (!validity) return nullptr;
  return {{"verdict", ToString(validity->kind)},
          {"cause", validity->cause},
          {"why", validity->why}};
}

Json MemoryJson(const std::vector<ProcessMemory>& processes) {
  Json json = Json::array();
  for (const ProcessMemory& process : processes) {
    Json purposes = Json::array();
    for (const MemoryUse& use : process.uses) {
      purposes.push_back({{"purpose", use.purpose},
                          {"bytes", use.bytes},
                          {"budget", OrNull(use.budget)},
                          {"exact", use.exact}});
    }
    json.push_back({{"name", process.name},
                    {"purposes", purposes},
                    {"resident_bytes", OrNull(process.resident)}});
  }
  return json;
}

Json RunJson(const ArmResult& run) {
  Json json;
  json["name"] = run.name;
  json["mode"] = run.mode;
  json["reduction"] = run.reduction;
  json["seed"] = run.seed;
  json["error"] = run.error.empty() ? Json(nullptr) : Json(run.error);
  json["verdict"] = ToString(run.convergence);
  json["steps"] = run.steps;
  json["restored_from_step"] = OrNull(run.restored_step);
  json["workers"] = run.workers;
  json["servers"] = run.servers;
  json["samples_per_second"] = run.samples_per_second;
  json["applied_samples_per_second"] = run.applied_samples_per_second;
  const StepTimes& times = run.step_ms;
  json["step_ms"] = {{"p50", times.p50},
                     {"p99", times.p99},
                     {"mean", times.mean},
                     {"data", times.data},
                     {"forward", times.forward},
                     {"backward", times.backward},
                     {"exposed", times.exposed},
                     {"not_ready", times.not_ready},
                     {"peer_late", times.peer_late},
                     {"on_wire", times.on_wire},
                     {"working", times.working},
                     {"optimizer", times.optimizer},
                     {"unaccounted", times.unaccounted}};
  json["recording"] = {{"training_thread_share", run.recording.training_thread_share},
                       {"processor_share", run.recording.processor_share}};
  json["waiting"] = {{"exposed", run.waiting.exposed},
                     {"peer_late", run.waiting.peer_late},
                     {"for_worker", Json::array()}};
  for (const auto& [worker, share] : run.waiting.for_worker) {
    json["waiting"]["for_worker"].push_back({{"worker", worker}, {"share", share}});
  }
  AddCommunication(run.communication, &json);
  json["late_share"] = run.late_share;
  json["wire"] = {
      {"type", run.wire.type},
      {"drift_max", OrNull(run.wire.drift_max)},
      {"drift_mean", OrNull(run.wire.drift_mean)},
      {"fp32_arm", run.wire.fp32_arm.empty() ? Json(nullptr) : Json(run.wire.fp32_arm)},
      {"loss_over_fp32",
       run.wire.loss_over_fp32 ? Number(*run.wire.loss_over_fp32) : Json(nullptr)}};
  json["final_loss"] = Number(run.final_loss);
  json["evaluations"] = Json::array();
  for (const EvaluationPoint& point : run.evaluations) {
    json["evaluations"].push_back({{"step", point.step},
                                   {"seconds", point.seconds},
                                   {"bytes", point.bytes},
                                   {"loss", Number(point.loss)},
                                   {"accuracy", point.accuracy},
                                   {"version_skew", point.version_skew}});
  }
  json["time_to_target_seconds"] = OrNull(run.time_to_target_seconds);
  AddContributions(run, &json);
  json["buckets"] = Json::array();
  for (size_t bucket = 0; bucket < run.buckets.size(); ++bucket) {
    json["buckets"].push_back(BucketJson(run, bucket));
  }
  json["skipped_buckets"] = run.skipped_buckets;
  json["endpoints"] = Json::array();
  for (const EndpointTraffic& endpoint : run.endpoints) {
    json["endpoints"].push_back(
        {{"name", endpoint.name},
         {"role", endpoint.role},
         {"steps", endpoint.steps},
         {"payload_out", endpoint.payload_out},
         {"payload_in", endpoint.payload_in},
         {"formula_out", endpoint.formula_out},
         {"formula_in", endpoint.formula_in},
         {"operations_per_step", endpoint.formula_operations},
         {"initial_out", endpoint.initial_out},
         {"initial_in", endpoint.initial_in},
         {"snapshot_out", endpoint.snapshot_out},
         {"snapshot_in", endpoint.snapshot_in},
         {"local_payload_out", endpoint.local_payload_out},
         {"local_payload_in", endpoint.local_payload_in},
         {"local_formula_out", endpoint.local_formula_out},
         {"local_formula_in", endpoint.local_formula_in},
         {"local_other_out", endpoint.local_other_out},
         {"local_other_in", endpoint.local_other_in},
         {"host", endpoint.host.empty() ? Json(nullptr) : Json(endpoint.host)},
         {"link_out", LinkJson(endpoint.link_out)},
         {"link_in", LinkJson(endpoint.link_in)},
         {"awaiting_bytes_seconds", OrNull(endpoint.awaiting_bytes_seconds)},
         {"awaiting_room_seconds", OrNull(endpoint.awaiting_room_seconds)},
         {"retransmissions", OrNull(endpoint.retransmissions)}});
  }
  json["server_imbalance"] = OrNull(run.server_imbalance);
  json["memory"] = MemoryJson(run.memory_use);
  json["hosts"] = run.hosts.empty() ? Json(nullptr) : Json(run.hosts);
  json["link_usage"] = UsageJson(run.link_usage);
  json["validity"] = ValidityJson(run.validity);
  json["parameter_digest"] = run.parameter_digest
                                 ? Json(absl::StrFormat("%016x", *run.parameter_digest))
                                 : Json(nullptr);
  json["certificates"] = {{"replica", ToString(run.replica.verdict)},
                          {"traffic", ToString(run.traffic.verdict)},
                          {"memory", ToString(run.memory.verdict)},
                          {"consistency", ToString(run.consistency.verdict)}};
  return json;
}

Json SpreadJson(const Spread& spread) {
  return {{"median", Number(spread.median)},
          {"min", Number(spread.min)},
          {"max", Number(spread.max)}};
}

Json OverSeedsJson(const ArmRuns& arm) {
  Json json;
  json["name"] = arm.first().name;
  json["seeds"] = Json::array();
  for (const ArmResult& run : arm.runs) json["seeds"].push_back(run.seed);
  json["verdicts"] = Json::object();
  for (const auto& [verdict, runs] : arm.Verdicts()) {
    json["verdicts"][ToString(verdict)] = runs;
  }
  json["void"] = arm.VoidRuns();
  json["samples_per_second"] = SpreadJson(arm.SamplesPerSecond());
  json["final_loss"] = SpreadJson(arm.FinalLoss());
  json["accuracy"] = SpreadJson(arm.Accuracy());
  json["time_to_target_seconds"] = SpreadJson(arm.TimeToTargetSeconds());
  return json;
}

}  // namespace

std::string SummaryJson(const Experiment& experiment,
                        const std::vector<ProbedLink>& probed,
                        const std::vector<ArmResult>& runs,
                        const std::vector<ExpectationResult>& expectations,
                        const absl::Status& outcome) {
  Json json;
  json["experiment"] = experiment.name();
  json["compute"] = DescribeCompute(experiment.compute());
  json["error"] = outcome.ok() ? Json(nullptr) : Json(std::string(outcome.message()));
  json["probed_links"] = ProbedLinksJson(probed);
  json["arms"] = Json::array();
  for (const ArmResult& run : runs) json["arms"].push_back(RunJson(run));
  json["over_seeds"] = Json::array();
  for (const ArmRuns& arm : GroupByArm(runs)) {
    json["over_seeds"].push_back(OverSeedsJson(arm));
  }
  json["expectations"] = Json::array();
  for (const ExpectationResult& expectation : expectations) {
    json["expectations"].push_back({{"kind", expectation.kind},
                                    {"figure", expectation.figure},
                                    {"verdict", ToString(expectation.verdict)},
                                    {"text", expectation.text}});
  }
  return json.dump(2) + "\n";
}

}  // namespace psring
