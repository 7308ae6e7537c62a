#include "experiments/result_table.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiments/text.h"

namespace psring {
namespace {

using Cell = std::function<std::string(const ArmResult&)>;

std::string ArmTable(const Experiment& experiment, const std::vector<ArmResult>& arms) {
  std::vector<std::string> header = {""};
  for (const ArmResult& arm : arms) header.push_back(arm.name);
  std::vector<std::vector<std::string>> rows;
  const auto row = [&](const std::string& name, const Cell& cell) {
    rows.push_back({name});
    for (const ArmResult& arm : arms) rows.back().push_back(cell(arm));
  };
  const auto milliseconds = [&](const std::string& name, double StepTimes::*part) {
    row(name, [part](const ArmResult& arm) {
      return absl::StrFormat("%.3f", arm.step_ms.*part);
    });
  };

  row("workers + servers",
      [](const ArmResult& arm) { return absl::StrCat(arm.workers, " + ", arm.servers); });
  row("steps", [](const ArmResult& arm) { return WithThousands(arm.steps); });
  row("samples/s", [](const ArmResult& arm) {
    return WithThousands(static_cast<int64_t>(arm.samples_per_second));
  });
  milliseconds("step ms: p50", &StepTimes::p50);
  milliseconds("         p99", &StepTimes::p99);
  milliseconds("         mean", &StepTimes::mean);
  milliseconds("  = data", &StepTimes::data);
  milliseconds("  + forward", &StepTimes::forward);
  milliseconds("  + backward", &StepTimes::backward);
  milliseconds("  + exposed", &StepTimes::exposed);
  milliseconds("  + optimizer", &StepTimes::optimizer);
  milliseconds("  + unaccounted", &StepTimes::unaccounted);
  row("recording cost: training thread", [](const ArmResult& arm) {
    return absl::StrFormat("%.3f %%", 100 * arm.recording.training_thread_share);
  });
  row("recording cost: processor", [](const ArmResult& arm) {
    return absl::StrFormat("%.3f %%", 100 * arm.recording.processor_share);
  });
  row("final training loss",
      [](const ArmResult& arm) { return absl::StrFormat("%.4f", arm.final_loss); });
  row("test accuracy", [](const ArmResult& arm) {
    return arm.evaluations.empty()
               ? "-"
               : absl::StrFormat("%.2f %%", 100 * arm.evaluations.back().accuracy);
  });
  const double target = experiment.training().target_accuracy();
  if (target > 0) {
    row(absl::StrFormat("seconds to %.4g %%", 100 * target), [](const ArmResult& arm) {
      return arm.time_to_target_seconds
                 ? absl::StrFormat("%.2f", *arm.time_to_target_seconds)
                 : "never";
    });
  }
  row("parameter digest", [](const ArmResult& arm) {
    return arm.parameter_digest ? absl::StrFormat("%016x", *arm.parameter_digest) : "-";
  });
  return FormatTable(header, rows);
}

std::string TrafficTable(const std::vector<ArmResult>& arms) {
  std::vector<std::vector<std::string>> rows;
  for (const ArmResult& arm : arms) {
    for (const EndpointTraffic& endpoint : arm.endpoints) {
      const auto per_step = [&](int64_t bytes) {
        return absl::StrFormat(
            "%.1f", static_cast<double>(bytes) / static_cast<double>(arm.steps) / 1024);
      };
      rows.push_back(
          {absl::StrCat(arm.name, " / ", endpoint.name),
           WithThousands(endpoint.payload_out), WithThousands(endpoint.formula_out),
           WithThousands(endpoint.payload_in), WithThousands(endpoint.formula_in),
           per_step(endpoint.payload_out), per_step(endpoint.payload_in)});
    }
  }
  return FormatTable({"payload bytes, all steps", "sent", "formula", "received",
                      "formula", "KiB/step out", "KiB/step in"},
                     rows);
}

std::string CertificateLines(const std::vector<ArmResult>& arms) {
  std::string lines = "  certificates\n";
  for (const ArmResult& arm : arms) {
    const auto add = [&](const char* what, const Certificate& certificate) {
      absl::StrAppendFormat(&lines, "  %-7s %-14s  %s: %s\n", what,
                            ToString(certificate.verdict), arm.name, certificate.why);
    };
    add("replica", arm.replica);
    add("traffic", arm.traffic);
  }
  return lines;
}

}  // namespace

std::string ResultTable(const Experiment& experiment,
                        const std::vector<ArmResult>& arms) {
  return absl::StrCat(ArmTable(experiment, arms), "\n", TrafficTable(arms), "\n",
                      CertificateLines(arms));
}

}  // namespace psring
