#include "experiments/result_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "experiments/arm_runs.h"
#include "experiments/communication_cells.h"
#include "experiments/compute_config.h"
#include "experiments/memory_table.h"
#include "experiments/staleness_chart.h"
#include "experiments/text.h"

namespace psring {
namespace {

using Cell = std::function<std::string(const ArmRuns&)>;
using Format = std::function<std::string(double)>;

// More workers than this have no row each.
constexpr size_t kMostListed = 8;
// The certificates of more arms than this share lines.
constexpr size_t kMostArmsApart = 4;

// A median, with its range where there is one.
std::string WithRange(const Spread& spread, const Format& format) {
  if (std::isnan(spread.median)) return "-";
  const std::string median = format(spread.median);
  const std::string min = format(spread.min);
  const std::string max = format(spread.max);
  return min == max ? median : absl::StrCat(median, " (", min, " to ", max, ")");
}

std::string Percent(double share) { return absl::StrFormat("%.2f %%", 100 * share); }

// How training ended, and after it that the times are void.
std::string VerdictCell(const ArmRuns& arm) {
  const auto count = [&](int runs) {
    return arm.runs.size() == 1 ? "" : absl::StrCat(" ", runs, " of ", arm.runs.size());
  };
  std::vector<std::string> verdicts;
  for (const auto& [verdict, runs] : arm.Verdicts()) {
    verdicts.push_back(absl::StrCat(ToString(verdict), count(runs)));
  }
  if (const Validity* const validity = arm.Void()) {
    verdicts.push_back(
        absl::StrCat("void", count(arm.VoidRuns()), ": ", validity->cause));
  }
  return absl::StrJoin(verdicts, ", ");
}

std::string DroppedCell(const ArmRuns& arm) {
  double made = 0;
  double dropped = 0;
  for (const ArmResult& run : arm.runs) {
    dropped += run.contributions.late + run.contributions.stale;
    for (const WorkerContributions& worker : run.contributions.workers) {
      made += worker.made;
    }
  }
  if (dropped == 0) return "0";
  return absl::StrFormat("%.0f (%s)", dropped / static_cast<double>(arm.runs.size()),
                         RoughPercent(dropped / made));
}

// Of one worker, where the arm has so many.
std::string ContributionsCell(const ArmRuns& arm, size_t rank) {
  if (rank >= arm.first().contributions.workers.size()) return "-";
  const auto value = [rank](const ArmResult& run) {
    return run.contributions.workers[rank].made;
  };
  return absl::StrFormat("%.0f", arm.Over(value).median);
}

std::string FewestAndMostCell(const ArmRuns& arm) {
  double fewest = arm.first().contributions.workers.front().made;
  double most = fewest;
  for (const ArmResult& run : arm.runs) {
    for (const WorkerContributions& worker : run.contributions.workers) {
      fewest = std::min(fewest, worker.made);
      most = std::max(most, worker.made);
    }
  }
  return absl::StrFormat("%.0f to %.0f", fewest, most);
}

std::string WireCell(const ArmRuns& arm) {
  // One process sends nothing.
  return arm.first().workers + arm.first().servers > 1 ? arm.first().wire.type : "-";
}

std::string DriftCell(const ArmRuns& arm) {
  if (!arm.first().wire.drift_max) return "-";
  double max = 0;
  for (const ArmResult& run : arm.runs) {
    max = std::max(max, run.wire.drift_max.value_or(0));
  }
  const auto mean = [](const ArmResult& run) { return run.wire.drift_mean.value_or(0); };
  return absl::StrFormat("%.3g %% / %.3g %%", 100 * arm.Over(mean).median, 100 * max);
}

// With the same seed, of the arm that differs in nothing else.
std::string LossOverFp32Cell(const ArmRuns& arm) {
  if (!arm.first().wire.loss_over_fp32) return "-";
  const auto over = [](const ArmResult& run) {
    return run.wire.loss_over_fp32.value_or(std::nan(""));
  };
  return WithRange(arm.Over(over),
                   [](double loss) { return absl::StrFormat("%+.4f", loss); });
}

// The same in every run of the arm.
std::string ImbalanceCell(const ArmRuns& arm) {
  const std::optional<double> imbalance = arm.first().server_imbalance;
  return imbalance ? absl::StrFormat("%.2f", *imbalance) : "-";
}

std::string AsText(const ResultRows& table) {
  return FormatTable(table.header, table.rows);
}

}  // namespace

ResultRows ArmRows(const Experiment& experiment, const std::vector<ArmRuns>& arms) {
  std::vector<std::string> header = {""};
  for (const ArmRuns& arm : arms) header.push_back(arm.first().name);
  std::vector<std::vector<std::string>> rows;
  const auto row = [&](const std::string& name, const Cell& cell) {
    rows.push_back({name});
    for (const ArmRuns& arm : arms) rows.back().push_back(cell(arm));
  };
  const auto percentile = [&](const std::string& name, double StepTimes::*part) {
    row(name, [part](const ArmRuns& arm) {
      const auto value = [part](const ArmResult& run) { return run.step_ms.*part; };
      return absl::StrFormat("%.3f", arm.Over(value).median);
    });
  };
  const auto mean = [&](const std::string& name, double StepTimes::*part) {
    row(name, [part](const ArmRuns& arm) {
      double sum = 0;
      for (const ArmResult& run : arm.runs) sum += run.step_ms.*part;
      return absl::StrFormat("%.3f", sum / static_cast<double>(arm.runs.size()));
    });
  };
  const auto share = [&](const std::string& name, auto value) {
    row(name, [value](const ArmRuns& arm) {
      return absl::StrFormat("%.3f %%", 100 * arm.Over(value).median);
    });
  };
  // Of arms with servers alone; no row where there are none.
  const auto servers_row = [&](const std::string& name, const Cell& cell) {
    const auto has_servers = [](const ArmRuns& arm) { return arm.first().servers > 0; };
    if (std::none_of(arms.begin(), arms.end(), has_servers)) return;
    row(name, [&](const ArmRuns& arm) { return has_servers(arm) ? cell(arm) : "-"; });
  };

  row("workers + servers", [](const ArmRuns& arm) {
    return absl::StrCat(arm.first().workers, " + ", arm.first().servers);
  });
  row("steps", [](const ArmRuns& arm) { return WithThousands(arm.first().steps); });
  if (std::any_of(arms.begin(), arms.end(), [](const ArmRuns& arm) {
        return arm.first().restored_step.has_value();
      })) {
    row("restored from step", [](const ArmRuns& arm) {
      const auto& step = arm.first().restored_step;
      return step ? WithThousands(*step) : "-";
    });
  }
  const bool several = std::any_of(
      arms.begin(), arms.end(), [](const ArmRuns& arm) { return arm.runs.size() > 1; });
  if (several) {
    row("seeds", [](const ArmRuns& arm) {
      return absl::StrCat(arm.first().seed, " to ", arm.runs.back().seed);
    });
  }
  row("samples/s", [](const ArmRuns& arm) {
    return WithRange(arm.SamplesPerSecond(), [](double value) {
      return WithThousands(static_cast<int64_t>(value));
    });
  });
  const bool dropped = std::any_of(arms.begin(), arms.end(), [](const ArmRuns& arm) {
    return DroppedCell(arm) != "0";
  });
  if (dropped) {
    row("  of them applied", [](const ArmRuns& arm) {
      return WithRange(
          arm.Over([](const ArmResult& run) { return run.applied_samples_per_second; }),
          [](double value) { return WithThousands(static_cast<int64_t>(value)); });
    });
  }
  percentile("step ms: p50", &StepTimes::p50);
  percentile("         p99", &StepTimes::p99);
  mean("         mean", &StepTimes::mean);
  mean("  = data", &StepTimes::data);
  mean("  + forward", &StepTimes::forward);
  mean("  + backward", &StepTimes::backward);
  mean("  + exposed", &StepTimes::exposed);
  mean("    = not ready here", &StepTimes::not_ready);
  mean("    + peer late", &StepTimes::peer_late);
  mean("    + on the wire", &StepTimes::on_wire);
  mean("    + working", &StepTimes::working);
  mean("  + optimizer", &StepTimes::optimizer);
  mean("  + unaccounted", &StepTimes::unaccounted);
  row("exposed, share of all time", [](const ArmRuns& arm) {
    const auto value = [](const ArmResult& run) { return run.waiting.exposed; };
    return RoughPercent(arm.Over(value).median);
  });
  row("  peer late", PeerLateCell);
  row("  longest for", WaitedForCell);
  row("first launch, share of backward", FirstLaunchCell);
  row("overlap ratio", OverlapRatioCell);
  row("arrival skew ms: mean", ArrivalSkewCell);
  row("  last to be ready", LastToBeReadyCell);
  if (experiment.compute().kind_case() != Compute::kReal) {
    row("steps later than compute wants", [](const ArmRuns& arm) {
      const auto value = [](const ArmResult& run) { return run.late_share; };
      return WithRange(arm.Over(value), RoughPercent);
    });
  }
  share("recording cost: training thread",
        [](const ArmResult& run) { return run.recording.training_thread_share; });
  share("recording cost: processor",
        [](const ArmResult& run) { return run.recording.processor_share; });
  if (arms.front().first().learns) {
    row("final training loss", [](const ArmRuns& arm) {
      return WithRange(arm.FinalLoss(), [](double loss) {
        return std::isfinite(loss) ? absl::StrFormat("%.4f", loss) : "not finite";
      });
    });
    row("test accuracy",
        [](const ArmRuns& arm) { return WithRange(arm.Accuracy(), Percent); });
  }
  if (!std::all_of(arms.begin(), arms.end(),
                   [](const ArmRuns& arm) { return arm.first().wire.is_fp32(); })) {
    row("gradients on the wire", WireCell);
    row("  drift: mean / max", DriftCell);
    row("  final loss over fp32's", LossOverFp32Cell);
  }
  const double target = experiment.training().target_accuracy();
  if (target > 0) {
    row(absl::StrFormat("seconds to %.4g %%", 100 * target), [](const ArmRuns& arm) {
      return WithRange(arm.TimeToTargetSeconds(), [](double seconds) {
        return std::isfinite(seconds) ? absl::StrFormat("%.2f", seconds) : "never";
      });
    });
  }
  row("verdict", VerdictCell);
  servers_row("staleness: mean / max", [](const ArmRuns& arm) {
    const Staleness staleness = arm.AllStaleness();
    return absl::StrFormat("%.2f / %d", staleness.mean, staleness.max);
  });
  servers_row("contributions dropped", DroppedCell);
  size_t workers = 0;
  for (const ArmRuns& arm : arms) {
    workers = std::max(workers, arm.first().contributions.workers.size());
  }
  if (workers > kMostListed) servers_row("  made by each worker", FewestAndMostCell);
  for (size_t rank = 0; workers <= kMostListed && rank < workers; ++rank) {
    servers_row(absl::StrCat("  made by worker ", rank),
                [rank](const ArmRuns& arm) { return ContributionsCell(arm, rank); });
  }
  const bool uneven = std::any_of(arms.begin(), arms.end(), [](const ArmRuns& arm) {
    return ImbalanceCell(arm) != "-" && ImbalanceCell(arm) != "1.00";
  });
  if (uneven) servers_row("server imbalance: max / mean", ImbalanceCell);
  const auto skipped = [](const ArmRuns& arm) {
    int64_t buckets = 0;
    for (const ArmResult& run : arm.runs) buckets += run.skipped_buckets;
    return buckets;
  };
  if (std::any_of(arms.begin(), arms.end(), skipped)) {
    row("buckets skipped, not finite",
        [&](const ArmRuns& arm) { return WithThousands(skipped(arm)); });
  }
  if (!several) {
    row("parameter digest", [](const ArmRuns& arm) {
      const std::optional<uint64_t> digest = arm.first().parameter_digest;
      return digest ? absl::StrFormat("%016x", *digest) : "-";
    });
  }
  return {.header = std::move(header), .rows = std::move(rows)};
}

namespace {

bool HaveSamePayload(const EndpointTraffic& a, const EndpointTraffic& b) {
  const auto numbers = [](const EndpointTraffic& endpoint) {
    return std::tie(endpoint.role, endpoint.steps, endpoint.payload_out,
                    endpoint.payload_in, endpoint.formula_out, endpoint.formula_in);
  };
  return numbers(a) == numbers(b);
}

}  // namespace

ResultRows TrafficRows(const std::vector<ArmRuns>& arms) {
  size_t processes = 0;
  for (const ArmRuns& runs : arms) processes += runs.first().endpoints.size();
  std::vector<std::vector<std::string>> rows;
  for (const ArmRuns& runs : arms) {
    const ArmResult& arm = runs.first();
    if (!arm.error.empty()) continue;
    const EndpointTraffic* first = nullptr;  // Of the last row.
    for (const EndpointTraffic& endpoint : arm.endpoints) {
      if (processes > kMostRows && first != nullptr &&
          HaveSamePayload(*first, endpoint)) {
        const size_t number = endpoint.name.rfind(' ') + 1;
        rows.back().front() = absl::StrCat(arm.name, " / ", first->name, " to ",
                                           endpoint.name.substr(number));
        continue;
      }
      first = &endpoint;
      const auto per_step = [&](int64_t bytes) {
        const int64_t steps = std::max<int64_t>(1, endpoint.steps);
        return absl::StrFormat(
            "%.1f", static_cast<double>(bytes) / static_cast<double>(steps) / 1024);
      };
      rows.push_back(
          {absl::StrCat(arm.name, " / ", endpoint.name),
           WithThousands(endpoint.payload_out), WithThousands(endpoint.formula_out),
           WithThousands(endpoint.payload_in), WithThousands(endpoint.formula_in),
           per_step(endpoint.payload_out), per_step(endpoint.payload_in)});
    }
  }
  return {.header = {"payload bytes, all steps", "sent", "formula", "received", "formula",
                     "KiB/step out", "KiB/step in"},
          .rows = std::move(rows)};
}

namespace {

// What one certificate says of all runs: the first failure, else in how many it passes.
CertificateLine LineOf(const char* what, const ArmRuns& arm,
                       const Certificate ArmResult::*certificate) {
  const auto first = [&](Verdict verdict) {
    return std::find_if(arm.runs.begin(), arm.runs.end(), [&](const ArmResult& run) {
      return (run.*certificate).verdict == verdict;
    });
  };
  std::string title = arm.first().name;
  auto run = first(Verdict::kFail);
  if (run != arm.runs.end()) {
    if (arm.runs.size() > 1) absl::StrAppend(&title, ", seed ", run->seed);
  } else if (run = first(Verdict::kPass); run != arm.runs.end()) {
    const auto passes =
        std::count_if(arm.runs.begin(), arm.runs.end(), [&](const ArmResult& other) {
          return (other.*certificate).verdict == Verdict::kPass;
        });
    if (arm.runs.size() > 1) {
      absl::StrAppend(&title, ", ", passes, " of ", arm.runs.size(), " seeds");
    }
  } else {
    run = arm.runs.begin();
  }
  return {.what = what,
          .verdict = ((*run).*certificate).verdict,
          .of = title,
          .why = ((*run).*certificate).why};
}

}  // namespace

std::vector<CertificateLine> CertificateLines(const std::vector<ArmRuns>& arms) {
  const std::pair<const char*, const Certificate ArmResult::*> kinds[] = {
      {"replica", &ArmResult::replica},
      {"traffic", &ArmResult::traffic},
      {"memory", &ArmResult::memory},
      {"consistency", &ArmResult::consistency}};
  std::vector<CertificateLine> lines;
  if (arms.size() <= kMostArmsApart) {
    for (const ArmRuns& arm : arms) {
      for (const auto& [what, of] : kinds) lines.push_back(LineOf(what, arm, of));
    }
  } else {
    for (const auto& [what, of] : kinds) {
      for (const ArmRuns& arm : arms) {
        const CertificateLine line = LineOf(what, arm, of);
        const auto same =
            std::find_if(lines.begin(), lines.end(), [&](const auto& other) {
              return other.what == line.what && other.verdict == line.verdict &&
                     other.why == line.why;
            });
        if (same == lines.end()) {
          lines.push_back(line);
        } else {
          absl::StrAppend(&same->of, ", ", line.of);
        }
      }
    }
  }
  return lines;
}

std::string ResultTable(const Experiment& experiment,
                        const std::vector<ArmResult>& runs) {
  const std::vector<ArmRuns> arms = GroupByArm(runs);
  std::string text = absl::StrCat("  compute: ", DescribeCompute(experiment.compute()),
                                  arms.front().first().learns
                                      ? "\n"
                                      : "; made-up gradients, no loss and no accuracy\n",
                                  AsText(ArmRows(experiment, arms)));
  const ResultRows traffic = TrafficRows(arms);
  for (const std::string& part :
       {StalenessChart(arms), traffic.rows.empty() ? "" : AsText(traffic),
        MemoryTable(arms)}) {
    if (!part.empty()) absl::StrAppend(&text, "\n", part);
  }
  absl::StrAppend(&text, "\n  certificates\n");
  for (const CertificateLine& line : CertificateLines(arms)) {
    absl::StrAppendFormat(&text, "  %-26s  %s: %s\n",
                          absl::StrCat(line.what, " ", ToString(line.verdict)), line.of,
                          line.why);
  }
  return text;
}

}  // namespace psring
