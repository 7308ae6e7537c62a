#include "experiments/expectations.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/errors.h"
#include "common/status_macros.h"
#include "experiments/arm_runs.h"
#include "experiments/text.h"
#include "google/protobuf/repeated_field.h"

namespace psring {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// The most bytes per step that one process has sent, or received.
double Busiest(const ArmResult& run, int64_t EndpointTraffic::*bytes) {
  double most = 0;
  for (const EndpointTraffic& endpoint : run.endpoints) {
    if (endpoint.steps == 0) continue;
    most = std::max(
        most, static_cast<double>(endpoint.*bytes) / static_cast<double>(endpoint.steps));
  }
  return most;
}

bool HasFloor(const ArmResult& run) { return run.link_usage && run.link_usage->floor; }

// Payload per step on the link of the worker that has most of it, in one direction.
double WorkerLinkBytes(const ArmResult& run) {
  double most = kNone;
  for (const EndpointTraffic& endpoint : run.endpoints) {
    if (endpoint.role != "worker" || endpoint.steps == 0) continue;
    if (!endpoint.link_out || !endpoint.link_in) continue;
    const int64_t bytes = std::max(endpoint.link_out->payload, endpoint.link_in->payload);
    // Of the two, the one that is a number.
    most =
        std::fmax(most, static_cast<double>(bytes) / static_cast<double>(endpoint.steps));
  }
  return most;
}

const LinkUse* BusiestLink(const ArmResult& run) {
  return run.link_usage ? &run.link_usage->links[run.link_usage->busiest] : nullptr;
}

// What the worker made that made fewest contributions, or most, by the workers' mean.
double Contributed(const ArmResult& run, bool fewest) {
  const std::vector<WorkerContributions>& workers = run.contributions.workers;
  if (workers.empty()) return kNone;
  double least = workers[0].made;
  double most = workers[0].made;
  double sum = 0;
  for (const WorkerContributions& worker : workers) {
    least = std::min(least, worker.made);
    most = std::max(most, worker.made);
    sum += worker.made;
  }
  return (fewest ? least : most) * static_cast<double>(workers.size()) / sum;
}

struct Figure {
  const char* name;
  const char* unit;
  double (*of)(const ArmResult& run);
};

// Everything that can be expected something of; a new figure is a line here.
constexpr Figure kFigures[] = {
    {"step_ms_p50", "ms", [](const ArmResult& run) { return run.step_ms.p50; }},
    {"step_ms_mean", "ms", [](const ArmResult& run) { return run.step_ms.mean; }},
    {"exposed_ms", "ms", [](const ArmResult& run) { return run.step_ms.exposed; }},
    {"exposed_share", "", [](const ArmResult& run) { return run.waiting.exposed; }},
    {"samples_per_second", "/s",
     [](const ArmResult& run) { return run.samples_per_second; }},
    {"busiest_out_bytes", "bytes/step",
     [](const ArmResult& run) { return Busiest(run, &EndpointTraffic::payload_out); }},
    {"busiest_in_bytes", "bytes/step",
     [](const ArmResult& run) { return Busiest(run, &EndpointTraffic::payload_in); }},
    {"server_imbalance", "",
     [](const ArmResult& run) { return run.server_imbalance.value_or(kNone); }},
    {"fewest_contributions", "",
     [](const ArmResult& run) { return Contributed(run, /*fewest=*/true); }},
    {"most_contributions", "",
     [](const ArmResult& run) { return Contributed(run, /*fewest=*/false); }},
    // With emulated hosts; without them there is none.
    {"floor_ms", "ms",
     [](const ArmResult& run) {
       return HasFloor(run) ? run.link_usage->floor->seconds * 1e3 : kNone;
     }},
    {"over_floor", "",
     [](const ArmResult& run) {
       return HasFloor(run) ? run.link_usage->over_floor : kNone;
     }},
    {"busiest_link_utilisation", "",
     [](const ArmResult& run) {
       const LinkUse* const link = BusiestLink(run);
       return link == nullptr ? kNone : link->utilisation;
     }},
    {"busiest_link_bytes", "bytes/step",
     [](const ArmResult& run) {
       const LinkUse* const link = BusiestLink(run);
       return link == nullptr ? kNone : link->bytes / static_cast<double>(run.steps);
     }},
    {"worker_link_bytes", "bytes/step", WorkerLinkBytes},
    {"hot_spot_factor", "",
     [](const ArmResult& run) {
       return run.link_usage ? run.link_usage->hot_spot_factor : kNone;
     }},
};

const Figure* FindFigure(const std::string& name) {
  const auto* const figure =
      std::find_if(std::begin(kFigures), std::end(kFigures),
                   [&](const Figure& candidate) { return candidate.name == name; });
  return figure == std::end(kFigures) ? nullptr : figure;
}

using Names = google::protobuf::RepeatedPtrField<std::string>;

// The settings of one expectation, as written at `path`.
class SettingsChecker {
 public:
  SettingsChecker(const Experiment& experiment, std::string path,
                  const FieldOrigins& origins)
      : experiment_(experiment), path_(std::move(path)), origins_(origins) {}

  absl::Status Check(const Expectation& expectation) {
    switch (expectation.kind_case()) {
      case Expectation::kMonotone: {
        const Expectation::Monotone& monotone = expectation.monotone();
        absl::StrAppend(&path_, ".monotone");
        RETURN_IF_ERROR(CheckFigure(monotone.figure()));
        if (!Expectation::Direction_IsValid(monotone.direction())) {
          return Wrong(".direction", absl::StrCat("is ", int{monotone.direction()}),
                       ValueNames(*Expectation::Direction_descriptor()));
        }
        return CheckArms(".arms", monotone.arms());
      }
      case Expectation::kFlat: {
        const Expectation::Flat& flat = expectation.flat();
        absl::StrAppend(&path_, ".flat");
        RETURN_IF_ERROR(CheckFigure(flat.figure()));
        RETURN_IF_ERROR(CheckArms(".arms", flat.arms()));
        if (flat.percent() >= 0 && std::isfinite(flat.percent())) {
          return absl::OkStatus();
        }
        return Wrong(".percent", absl::StrCat("is ", flat.percent()),
                     "a finite number of at least 0");
      }
      case Expectation::kRatio: {
        const Expectation::Ratio& ratio = expectation.ratio();
        absl::StrAppend(&path_, ".ratio");
        RETURN_IF_ERROR(CheckFigure(ratio.figure()));
        RETURN_IF_ERROR(CheckArm(".arm", ratio.arm()));
        RETURN_IF_ERROR(CheckArm(".over", ratio.over()));
        return CheckRange(ratio.low(), ratio.high());
      }
      case Expectation::kBetween: {
        const Expectation::Between& between = expectation.between();
        absl::StrAppend(&path_, ".between");
        RETURN_IF_ERROR(CheckFigure(between.figure()));
        RETURN_IF_ERROR(CheckArm(".arm", between.arm()));
        return CheckRange(between.low(), between.high());
      }
      case Expectation::kCrossover: {
        const Expectation::Crossover& crossover = expectation.crossover();
        absl::StrAppend(&path_, ".crossover");
        RETURN_IF_ERROR(CheckFigure(crossover.figure()));
        RETURN_IF_ERROR(CheckArms(".arms", crossover.arms()));
        RETURN_IF_ERROR(CheckArms(".against", crossover.against()));
        const int length = crossover.arms_size();
        if (crossover.against_size() != length) {
          return Wrong(".against",
                       absl::StrCat("has ", crossover.against_size(), " arms"),
                       absl::StrCat("as many as `arms` has, ", length));
        }
        if (crossover.at() > 0 && crossover.at() < length) return absl::OkStatus();
        return Wrong(
            ".at",
            origins_.Has(path_ + ".at") ? absl::StrCat("is ", crossover.at()) : "missing",
            absl::StrCat("1 to ", length - 1));
      }
      case Expectation::KIND_NOT_SET:
        break;
    }
    return Wrong("", "expects nothing",
                 MemberNames(*Expectation::descriptor()->FindOneofByName("kind")));
  }

 private:
  absl::Status Wrong(const std::string& field, const std::string& problem,
                     const std::string& allowed) const {
    return origins_.Error(path_ + field, problem, allowed);
  }

  absl::Status CheckRange(double low, double high) const {
    if (low >= 0 && low <= high && std::isfinite(high) && high > 0) {
      return absl::OkStatus();
    }
    return Wrong(".high", absl::StrCat("the range is ", low, " to ", high),
                 "finite numbers, low at least 0 and high at least low and above 0");
  }

  absl::Status CheckFigure(const std::string& figure) const {
    if (FindFigure(figure) != nullptr) return absl::OkStatus();
    std::vector<std::string> names;
    for (const Figure& known : kFigures) names.push_back(known.name);
    return WrongName(".figure", figure, absl::StrJoin(names, ", "));
  }

  absl::Status CheckArm(const std::string& field, const std::string& arm) const {
    std::vector<std::string> names;
    for (const Arm& known : experiment_.arms()) {
      if (known.name() == arm) return absl::OkStatus();
      names.push_back(known.name());
    }
    return WrongName(field, arm, absl::StrJoin(names, ", "));
  }

  absl::Status CheckArms(const std::string& field, const Names& arms) const {
    for (int i = 0; i < arms.size(); ++i) {
      RETURN_IF_ERROR(CheckArm(absl::StrCat(field, "[", i, "]"), arms[i]));
    }
    if (arms.size() >= 2) return absl::OkStatus();
    return Wrong(field, absl::StrCat("has ", arms.size()), "two or more arms");
  }

  absl::Status WrongName(const std::string& field, const std::string& name,
                         const std::string& allowed) const {
    const std::string problem =
        name.empty() ? "missing" : absl::StrCat("is '", absl::CHexEscape(name), "'");
    return Wrong(field, problem, allowed);
  }

  const Experiment& experiment_;
  std::string path_;
  const FieldOrigins& origins_;
};

// The figures of the arms that an expectation names.
class Evaluation {
 public:
  Evaluation(const std::string& figure, const std::vector<ArmRuns>& arms)
      : figure_(*FindFigure(figure)), arms_(arms) {}

  // Not a number where the arm has none.
  std::vector<double> Of(const Names& names) {
    std::vector<double> values;
    for (const std::string& name : names) values.push_back(Of(name));
    return values;
  }
  double Of(const std::string& name) {
    const auto arm = std::find_if(arms_.begin(), arms_.end(), [&](const ArmRuns& other) {
      return other.first().name == name;
    });
    if (arm == arms_.end()) {
      missing_.push_back(name);
      return kNone;
    }
    const bool ended =
        std::all_of(arm->runs.begin(), arm->runs.end(),
                    [](const ArmResult& run) { return run.error.empty(); });
    if (const Validity* const validity = arm->Void()) void_[name] = validity->cause;
    return ended ? arm->Over(figure_.of).median : kNone;
  }

  // "one 10.5, four 42 ms"
  std::string Listed(const Names& names) {
    std::vector<std::string> texts;
    for (const std::string& name : names) {
      texts.push_back(absl::StrCat(name, " ", Text(Of(name))));
    }
    const std::string unit = *figure_.unit == '\0' ? "" : absl::StrCat(" ", figure_.unit);
    return absl::StrCat(absl::StrJoin(texts, ", "), unit);
  }

  // `expected`: what holds for the figures; not-a-number fails every comparison.
  ExpectationResult Result(const char* kind, bool expected, std::string text) const {
    ExpectationResult result{.kind = kind,
                             .figure = figure_.name,
                             .verdict = expected ? Verdict::kPass : Verdict::kFail,
                             .text = absl::StrCat(figure_.name, " ", text)};
    if (!missing_.empty()) {
      result.verdict = Verdict::kNotApplicable;
      absl::StrAppend(&result.text, "; not run: ", missing_.front());
    } else if (!void_.empty()) {
      const auto& [arm, cause] = *void_.begin();
      result.verdict = Verdict::kFail;
      absl::StrAppend(&result.text, "; ", arm, " is void: ", cause);
    }
    return result;
  }

  static std::string Text(double value) {
    constexpr double kMostDigits = 1e6;
    if (std::isnan(value)) return "none";
    if (value < kMostDigits || value > 1e18) return absl::StrFormat("%.6g", value);
    return WithThousands(std::llround(value));
  }

 private:
  const Figure& figure_;
  const std::vector<ArmRuns>& arms_;
  std::vector<std::string> missing_;
  std::map<std::string, std::string> void_;  // The cause, by arm.
};

ExpectationResult CheckMonotone(const Expectation::Monotone& monotone,
                                const std::vector<ArmRuns>& arms) {
  Evaluation evaluation(monotone.figure(), arms);
  const std::vector<double> values = evaluation.Of(monotone.arms());
  const bool up = monotone.direction() == Expectation::INCREASING;
  bool expected = true;
  for (size_t i = 1; i < values.size(); ++i) {
    expected &= up ? values[i] > values[i - 1] : values[i] < values[i - 1];
  }
  return evaluation.Result("monotone", expected,
                           absl::StrCat(up ? "increases" : "decreases", ": ",
                                        evaluation.Listed(monotone.arms())));
}

ExpectationResult CheckFlat(const Expectation::Flat& flat,
                            const std::vector<ArmRuns>& arms) {
  Evaluation evaluation(flat.figure(), arms);
  const std::vector<double> values = evaluation.Of(flat.arms());
  bool expected = true;
  for (const double a : values) {
    for (const double b : values) expected &= a <= b * (1 + flat.percent() / 100);
  }
  return evaluation.Result("flat", expected,
                           absl::StrFormat("is flat within %.4g %%: %s", flat.percent(),
                                           evaluation.Listed(flat.arms())));
}

ExpectationResult CheckRatio(const Expectation::Ratio& ratio,
                             const std::vector<ArmRuns>& arms) {
  Evaluation evaluation(ratio.figure(), arms);
  const double value = evaluation.Of(ratio.arm()) / evaluation.Of(ratio.over());
  Names both;
  *both.Add() = ratio.arm();
  *both.Add() = ratio.over();
  return evaluation.Result(
      "ratio", value >= ratio.low() && value <= ratio.high(),
      absl::StrFormat("of %s is %.4g to %.4g times that of %s: it is %s times; %s",
                      ratio.arm(), ratio.low(), ratio.high(), ratio.over(),
                      Evaluation::Text(value), evaluation.Listed(both)));
}

ExpectationResult CheckBetween(const Expectation::Between& between,
                               const std::vector<ArmRuns>& arms) {
  Evaluation evaluation(between.figure(), arms);
  const double value = evaluation.Of(between.arm());
  Names one;
  *one.Add() = between.arm();
  return evaluation.Result("between", value >= between.low() && value <= between.high(),
                           absl::StrFormat("is %.4g to %.4g: %s", between.low(),
                                           between.high(), evaluation.Listed(one)));
}

ExpectationResult CheckCrossover(const Expectation::Crossover& crossover,
                                 const std::vector<ArmRuns>& arms) {
  Evaluation evaluation(crossover.figure(), arms);
  const std::vector<double> values = evaluation.Of(crossover.arms());
  const std::vector<double> against = evaluation.Of(crossover.against());
  bool expected = true;
  for (size_t i = 0; i < values.size(); ++i) {
    const bool below = static_cast<int64_t>(i) < crossover.at();
    expected &= below ? values[i] < against[i] : values[i] > against[i];
  }
  const int at = static_cast<int>(crossover.at());
  return evaluation.Result(
      "crossover", expected,
      absl::StrFormat("is below before %s, above from there on: %s against %s",
                      crossover.arms(at), evaluation.Listed(crossover.arms()),
                      evaluation.Listed(crossover.against())));
}

}  // namespace

absl::Status CheckExpectationSettings(const Experiment& experiment,
                                      const FieldOrigins& origins) {
  for (int i = 0; i < experiment.expect_size(); ++i) {
    SettingsChecker checker(experiment, absl::StrCat("expect[", i, "]"), origins);
    RETURN_IF_ERROR(checker.Check(experiment.expect(i)));
  }
  return absl::OkStatus();
}

std::vector<ExpectationResult> CheckExpectations(const Experiment& experiment,
                                                 const std::vector<ArmResult>& runs) {
  const std::vector<ArmRuns> arms = GroupByArm(runs);
  std::vector<ExpectationResult> results;
  for (const Expectation& expectation : experiment.expect()) {
    switch (expectation.kind_case()) {
      case Expectation::kMonotone:
        results.push_back(CheckMonotone(expectation.monotone(), arms));
        break;
      case Expectation::kFlat:
        results.push_back(CheckFlat(expectation.flat(), arms));
        break;
      case Expectation::kRatio:
        results.push_back(CheckRatio(expectation.ratio(), arms));
        break;
      case Expectation::kCrossover:
        results.push_back(CheckCrossover(expectation.crossover(), arms));
        break;
      case Expectation::kBetween:
        results.push_back(CheckBetween(expectation.between(), arms));
        break;
      case Expectation::KIND_NOT_SET:
        break;
    }
  }
  return results;
}

std::string ExpectationLines(const std::vector<ExpectationResult>& results) {
  if (results.empty()) return "";
  std::string lines = "  expectations\n";
  for (const ExpectationResult& result : results) {
    const std::string verdict = absl::StrCat(result.kind, " ", ToString(result.verdict));
    absl::StrAppendFormat(&lines, "  %-26s  %s\n", verdict, result.text);
  }
  return lines;
}

absl::Status StatusOf(const std::vector<ExpectationResult>& results) {
  const auto fails = [](const ExpectationResult& result) {
    return result.verdict == Verdict::kFail;
  };
  const auto first = std::find_if(results.begin(), results.end(), fails);
  if (first == results.end()) return absl::OkStatus();
  return CheckFailedError(
      absl::StrCat("expectations not met: ", std::count_if(first, results.end(), fails),
                   " of ", results.size(), "; the first: ", first->text));
}

}  // namespace psring
