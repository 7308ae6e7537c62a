#include "experiments/result_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "experiments/arm_runs.h"
#include "experiments/hosts/link_tables.h"
#include "experiments/staleness_chart.h"
#include "experiments/text.h"

namespace psring {
namespace {

using Cell = std::function<std::string(const ArmRuns&)>;
using Format = std::function<std::string(double)>;

// More workers than this have no row each.
constexpr size_t kMostListed = 8;

// A median, with its range where there is one.
std::string WithRange(const Spread& spread, const Format& format) {
  if (std::isnan(spread.median)) return "-";
  const std::string median = format(spread.median);
  const std::string min = format(spread.min);
  const std::string max = format(spread.max);
  return min == max ? median : absl::StrCat(median, " (", min, " to ", max, ")");
}

std::string Percent(double share) { return absl::StrFormat("%.2f %%", 100 * share); }
// Of times, which are not as exact.
std::string RoughPercent(double share) { return absl::StrFormat("%.1f %%", 100 * share); }

std::string VerdictCell(const ArmRuns& arm) {
  if (arm.runs.size() == 1) return ToString(arm.first().convergence);
  std::vector<std::string> counts;
  for (const auto& [verdict, runs] : arm.Verdicts()) {
    counts.push_back(absl::StrCat(ToString(verdict), " ", runs, " of ", arm.runs.size()));
  }
  return absl::StrJoin(counts, ", ");
}

// The worker that the others have waited for most, over all runs.
std::string WaitedForCell(const ArmRuns& arm) {
  std::map<int, double> shares;
  for (const ArmResult& run : arm.runs) {
    for (const auto& [worker, share] : run.waiting.for_worker) {
      shares[worker] += share / static_cast<double>(arm.runs.size());
    }
  }
  const auto most =
      std::max_element(shares.begin(), shares.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == shares.end()) return "-";
  return absl::StrFormat("worker %d, %s", most->first, RoughPercent(most->second));
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

std::string ArmTable(const Experiment& experiment, const std::vector<ArmRuns>& arms) {
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
  mean("  + optimizer", &StepTimes::optimizer);
  mean("  + unaccounted", &StepTimes::unaccounted);
  row("exposed, share of all time", [](const ArmRuns& arm) {
    const auto value = [](const ArmResult& run) { return run.waiting.exposed; };
    return RoughPercent(arm.Over(value).median);
  });
  servers_row("  waiting for other workers", [](const ArmRuns& arm) {
    const auto value = [](const ArmResult& run) { return run.waiting.for_others; };
    return RoughPercent(arm.Over(value).median);
  });
  servers_row("  longest for", WaitedForCell);
  share("recording cost: training thread",
        [](const ArmResult& run) { return run.recording.training_thread_share; });
  share("recording cost: processor",
        [](const ArmResult& run) { return run.recording.processor_share; });
  row("final training loss", [](const ArmRuns& arm) {
    return WithRange(arm.FinalLoss(), [](double loss) {
      return std::isfinite(loss) ? absl::StrFormat("%.4f", loss) : "not finite";
    });
  });
  row("test accuracy",
      [](const ArmRuns& arm) { return WithRange(arm.Accuracy(), Percent); });
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
  return FormatTable(header, rows);
}

// Without arms that ended early, whose processes have not reported theirs; empty where
// there are no others.
std::string TrafficTable(const std::vector<ArmRuns>& arms) {
  std::vector<std::vector<std::string>> rows;
  for (const ArmRuns& runs : arms) {
    const ArmResult& arm = runs.first();
    if (!arm.error.empty()) continue;
    for (const EndpointTraffic& endpoint : arm.endpoints) {
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
  if (rows.empty()) return "";
  return FormatTable({"payload bytes, all steps", "sent", "formula", "received",
                      "formula", "KiB/step out", "KiB/step in"},
                     rows);
}

// What one certificate says of all runs: the first failure, else in how many it passes.
std::string CertificateLine(const char* what, const ArmRuns& arm,
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
  const std::string verdict =
      absl::StrCat(what, " ", ToString(((*run).*certificate).verdict));
  return absl::StrFormat("  %-26s  %s: %s\n", verdict, title, ((*run).*certificate).why);
}

std::string CertificateLines(const std::vector<ArmRuns>& arms) {
  std::string lines = "  certificates\n";
  for (const ArmRuns& arm : arms) {
    absl::StrAppend(&lines, CertificateLine("replica", arm, &ArmResult::replica),
                    CertificateLine("traffic", arm, &ArmResult::traffic),
                    CertificateLine("consistency", arm, &ArmResult::consistency));
  }
  return lines;
}

}  // namespace

std::string ResultTable(const Experiment& experiment,
                        const std::vector<ArmResult>& runs) {
  const std::vector<ArmRuns> arms = GroupByArm(runs);
  std::string text = ArmTable(experiment, arms);
  for (const std::string& part :
       {StalenessChart(arms), TrafficTable(arms), LinkAuditTable(arms),
        HotSpotTable(arms), CertificateLines(arms)}) {
    if (!part.empty()) absl::StrAppend(&text, "\n", part);
  }
  return text;
}

}  // namespace psring
