#include "experiments/summary.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace psring {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinities and no NaN; a diverged loss becomes null.
Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json ArmJson(const ArmResult& arm) {
  Json json;
  json["name"] = arm.name;
  json["mode"] = arm.mode;
  json["steps"] = arm.steps;
  json["workers"] = arm.workers;
  json["servers"] = arm.servers;
  json["samples_per_second"] = arm.samples_per_second;
  const StepTimes& times = arm.step_ms;
  json["step_ms"] = {{"p50", times.p50},
                     {"p99", times.p99},
                     {"mean", times.mean},
                     {"data", times.data},
                     {"forward", times.forward},
                     {"backward", times.backward},
                     {"exposed", times.exposed},
                     {"optimizer", times.optimizer},
                     {"unaccounted", times.unaccounted}};
  json["recording"] = {{"training_thread_share", arm.recording.training_thread_share},
                       {"processor_share", arm.recording.processor_share}};
  json["final_loss"] = Number(arm.final_loss);
  json["evaluations"] = Json::array();
  for (const EvaluationPoint& point : arm.evaluations) {
    json["evaluations"].push_back({{"step", point.step},
                                   {"seconds", point.seconds},
                                   {"bytes", point.bytes},
                                   {"loss", Number(point.loss)},
                                   {"accuracy", point.accuracy}});
  }
  json["time_to_target_seconds"] =
      arm.time_to_target_seconds ? Json(*arm.time_to_target_seconds) : Json(nullptr);
  json["endpoints"] = Json::array();
  for (const EndpointTraffic& endpoint : arm.endpoints) {
    json["endpoints"].push_back({{"name", endpoint.name},
                                 {"role", endpoint.role},
                                 {"payload_out", endpoint.payload_out},
                                 {"payload_in", endpoint.payload_in},
                                 {"formula_out", endpoint.formula_out},
                                 {"formula_in", endpoint.formula_in},
                                 {"initial_out", endpoint.initial_out},
                                 {"initial_in", endpoint.initial_in}});
  }
  json["parameter_digest"] = arm.parameter_digest
                                 ? Json(absl::StrFormat("%016x", *arm.parameter_digest))
                                 : Json(nullptr);
  json["certificates"] = {{"replica", ToString(arm.replica.verdict)},
                          {"traffic", ToString(arm.traffic.verdict)}};
  return json;
}

}  // namespace

std::string SummaryJson(const Experiment& experiment, const std::vector<ArmResult>& arms,
                        const absl::Status& outcome) {
  Json json;
  json["experiment"] = experiment.name();
  json["error"] = outcome.ok() ? Json(nullptr) : Json(std::string(outcome.message()));
  json["arms"] = Json::array();
  for (const ArmResult& arm : arms) json["arms"].push_back(ArmJson(arm));
  return json.dump(2) + "\n";
}

}  // namespace psring
