#include "experiments/report/verdict.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "experiments/hosts/hot_spot_verdict.h"
#include "experiments/report/words.h"
#include "experiments/result_table.h"
#include "experiments/text.h"

namespace psring {
namespace {

const std::string& NameOf(const ArmRuns& arm) { return arm.first().name; }

// "the best arm with parameter servers".
std::string BestOf(const ArmRuns& arm) {
  switch (ArchitectureOf(arm.first())) {
    case Architecture::kServers:
      return "the best arm with parameter servers";
    case Architecture::kRing:
      return "the best ring";
    case Architecture::kLocal:
      return "one process alone";
  }
  return "";
}

// Of the winner's architecture.
std::string Title(const ArmRuns& arm) {
  switch (ArchitectureOf(arm.first())) {
    case Architecture::kServers:
      return "Parameter servers";
    case Architecture::kRing:
      return "A ring";
    case Architecture::kLocal:
      return "One process";
  }
  return "";
}

std::string TargetText(const RunResults& run) {
  return absl::StrFormat("%.4g %% test accuracy",
                         100 * run.experiment.training().target_accuracy());
}

// "ring reached 85 % test accuracy after 3.05 s".
std::string Achievement(const RunResults& run, Measure measure, const ArmRuns& arm) {
  const std::string value = ValueText(measure, arm);
  if (measure == Measure::kThroughput) {
    return absl::StrCat(NameOf(arm), " trained ", value);
  }
  if (value == "never") return absl::StrCat(NameOf(arm), " never reached it");
  return absl::StrCat(NameOf(arm), " reached ", TargetText(run), " after ", value);
}

// "2.6 times as fast as ring, the best ring (6.66 s)".
std::string LeadText(Measure measure, const ArmRuns& best, const ArmRuns& other,
                     const std::string& what) {
  const double lead = Lead(measure, best, other);
  const std::string title = absl::StrCat(NameOf(other), ", ", what);
  if (!std::isfinite(lead)) return absl::StrCat("which ", title, ", never did");
  return absl::StrCat(
      Times(lead),
      measure == Measure::kThroughput ? " times as many as " : " times as fast as ",
      title, " (", ValueText(measure, other), ")");
}

std::string Winner(const RunResults& run, const Contest& contest) {
  if (contest.arms.empty()) {
    if (contest.left_out.empty()) return "Nobody won: no arm has come to its end.";
    return absl::StrFormat(
        "Nobody won: of %d arms with %d workers all diverged, or are void.",
        static_cast<int>(contest.left_out.size()), contest.workers);
  }
  const Measure measure = contest.measure;
  const ArmRuns& best = *contest.arms.front();
  if (contest.arms.size() == 1) {
    return absl::StrCat(Achievement(run, measure, best), "; there is no other arm with ",
                        contest.workers, contest.workers == 1 ? " worker" : " workers",
                        " to compare it with.");
  }
  const ArmRuns* const other = contest.best_other();
  const ArmRuns& second = other == nullptr ? *contest.arms[1] : *other;
  const ArmRuns& last = *contest.arms.back();
  const std::string what = other == nullptr ? "the next best arm" : BestOf(second);
  std::string text = absl::StrCat(Achievement(run, measure, best), ", ");
  if (TooClose(measure, best, second)) {
    const std::string value = ValueText(measure, second);
    const bool after = measure == Measure::kTimeToTarget && value != "never";
    text = absl::StrCat("No clear winner: ", text, "and ", NameOf(second), ", ", what,
                        ", ", after ? "after " : "", value);
  } else {
    text = absl::StrCat(other == nullptr ? "Ahead" : Title(best), other ? " won: " : ": ",
                        text, LeadText(measure, best, second, what));
  }
  if (contest.arms.size() > 2 && &last != &second) {
    absl::StrAppend(&text, ", and ",
                    LeadText(measure, best, last,
                             absl::StrFormat("the last of %d arms with %d workers",
                                             static_cast<int>(contest.arms.size()),
                                             contest.workers)));
  }
  return absl::StrCat(text, ".");
}

double MeanOverRuns(const ArmRuns& arm, double StepTimes::*part) {
  double sum = 0;
  for (const ArmResult& run : arm.runs) sum += run.step_ms.*part;
  return sum / static_cast<double>(arm.runs.size());
}

// "most of it because ...", of the largest cause; empty where none is known.
std::string LargestCause(const ArmRuns& arm) {
  const std::pair<double StepTimes::*, const char*> causes[] = {
      {&StepTimes::not_ready, "its own gradients were not ready"},
      {&StepTimes::peer_late, "another worker was late"},
      {&StepTimes::on_wire, "bytes were on the wire"},
      {&StepTimes::working, "gradients were added up or applied"}};
  const char* what = "";
  double largest = 0;
  double sum = 0;
  for (const auto& [part, text] : causes) {
    const double ms = MeanOverRuns(arm, part);
    sum += ms;
    if (ms <= largest) continue;
    largest = ms;
    what = text;
  }
  if (sum <= 0) return "";
  return absl::StrFormat(", %s of it because %s", RoughPercent(largest / sum), what);
}

// Where the time of a step went.
std::string StepSentence(const ArmRuns& arm) {
  const double mean = MeanOverRuns(arm, &StepTimes::mean);
  const double exposed = MeanOverRuns(arm, &StepTimes::exposed);
  if (mean <= 0) return "";
  return absl::StrFormat(
      "A step of %s took %s on average; for %s of that its worker waited for "
      "communication that backward did not hide%s.",
      NameOf(arm), RoughSeconds(mean / 1e3), RoughPercent(exposed / mean),
      exposed > 0 ? LargestCause(arm) : "");
}

std::string StragglerSentence(const ArmRuns& arm) {
  const std::map<int, double>& waited = arm.first().waiting.for_worker;
  const auto longest =
      std::max_element(waited.begin(), waited.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  constexpr double kWorthSaying = 0.1;
  if (longest == waited.end() || longest->second < kWorthSaying) return "";
  return absl::StrFormat("In %s the others waited longest for worker %d: %s of all time.",
                         NameOf(arm), longest->first, RoughPercent(longest->second));
}

// How well both have learned in the end.
std::string AccuracySentence(const ArmRuns& best, const ArmRuns& other) {
  const double one = best.Accuracy().median;
  const double two = other.Accuracy().median;
  if (std::isnan(one) || std::isnan(two)) return "";
  return absl::StrFormat("Test accuracy in the end: %s %.2f %%, %s %.2f %%.",
                         NameOf(best), 100 * one, NameOf(other), 100 * two);
}

std::vector<std::string> Why(const std::vector<ArmRuns>& arms, const Contest& contest) {
  std::vector<std::string> why;
  const auto add = [&why](std::string sentence) {
    if (!sentence.empty()) why.push_back(std::move(sentence));
  };
  const std::string hot_spot = HotSpotVerdict(arms);
  absl::string_view line = absl::StripTrailingAsciiWhitespace(hot_spot);
  if (absl::ConsumePrefix(&line, "verdict: ")) {
    add(absl::ConsumePrefix(&line, "none, ")
            ? absl::StrCat("Nothing can be said of the links, ", line, ".")
            : absl::StrCat("The links: ", line, "."));
  }
  if (contest.arms.empty()) return why;
  add(StepSentence(*contest.arms.front()));
  if (const ArmRuns* const other = contest.best_other()) {
    add(StepSentence(*other));
    add(StragglerSentence(*other));
    add(AccuracySentence(*contest.arms.front(), *other));
  } else if (contest.arms.size() > 1) {
    add(StepSentence(*contest.arms[1]));
  }
  return why;
}

// Whether it is to be believed, reason by reason.
class Reasons {
 public:
  void Add(Trust trust, std::string sentence) {
    reasons_.emplace_back(trust, std::move(sentence));
  }

  void MoveTo(ReportVerdict* verdict) {
    std::stable_sort(reasons_.begin(), reasons_.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (auto& [trust, sentence] : reasons_) {
      verdict->trust = std::max(verdict->trust, trust);
      verdict->reasons.push_back(std::move(sentence));
    }
  }

 private:
  std::vector<std::pair<Trust, std::string>> reasons_;
};

void AddCertificates(const std::vector<ArmResult>& ended, Reasons* reasons) {
  int passes = 0;
  int fails = 0;
  std::string first;
  std::vector<std::string> passed;  // Kinds.
  for (const ArmResult& run : ended) {
    const std::pair<const char*, const Certificate*> kinds[] = {
        {"replica", &run.replica},
        {"traffic", &run.traffic},
        {"memory", &run.memory},
        {"consistency", &run.consistency}};
    for (const auto& [what, certificate] : kinds) {
      if (certificate->verdict == Verdict::kPass) {
        ++passes;
        if (std::find(passed.begin(), passed.end(), what) == passed.end()) {
          passed.push_back(what);
        }
      }
      if (certificate->verdict != Verdict::kFail) continue;
      if (++fails == 1)
        first = absl::StrCat(what, " of ", run.name, ": ", certificate->why);
    }
  }
  if (fails > 0) {
    reasons->Add(Trust::kNo,
                 absl::StrFormat("%d of %d certificates that apply fail; the first: %s.",
                                 fails, fails + passes, first));
  } else if (passes > 0) {
    reasons->Add(Trust::kYes, absl::StrFormat("All %d certificates that apply pass: %s.",
                                              passes, absl::StrJoin(passed, ", ")));
  }
}

void AddValidity(const std::vector<ArmRuns>& arms, Reasons* reasons) {
  for (const ArmRuns& arm : arms) {
    if (const Validity* const validity = arm.Void()) {
      reasons->Add(Trust::kWithCare, absl::StrCat("The times of ", NameOf(arm),
                                                  " are void: ", validity->why, "."));
      continue;
    }
    const std::optional<Validity>& first = arm.first().validity;
    if (first && first->kind == Validity::Kind::kCannotBeTold) {
      reasons->Add(Trust::kWithCare,
                   absl::StrCat("Whether links set the times of ", NameOf(arm),
                                " cannot be told: ", first->why, "."));
    }
  }
}

// Processes that share processors do not show what as many machines would do.
void AddCores(const RunResults& run, const std::vector<ArmRuns>& arms, Reasons* reasons) {
  int64_t cores = 0;
  for (const auto& [name, value] : run.environment) {
    if (name == "cores" && !absl::SimpleAtoi(value, &cores)) cores = 0;
  }
  int64_t most = 0;
  for (const ArmRuns& arm : arms) {
    // On emulated hosts that is what validity tells.
    if (!arm.first().hosts.empty()) continue;
    most = std::max<int64_t>(most, arm.first().workers + arm.first().servers);
  }
  if (cores == 0 || most <= cores) return;
  reasons->Add(Trust::kWithCare,
               absl::StrFormat("Up to %d processes shared %d processor cores: times show "
                               "how they share, not what as many machines would do; "
                               "bytes, bits and accuracy are not touched by that.",
                               most, cores));
}

}  // namespace

const char* ToString(Trust trust) {
  switch (trust) {
    case Trust::kYes:
      return "yes";
    case Trust::kWithCare:
      return "with care";
    case Trust::kNo:
      return "no";
  }
  return "";
}

ReportVerdict VerdictOf(const RunResults& run, const std::vector<ArmRuns>& arms,
                        const Contest& contest) {
  ReportVerdict verdict;
  verdict.winner = Winner(run, contest);
  verdict.why = Why(arms, contest);
  Reasons reasons;
  AddCertificates(run.ended, &reasons);
  const auto unmet = std::find_if(
      run.expectations.begin(), run.expectations.end(),
      [](const ExpectationResult& result) { return result.verdict == Verdict::kFail; });
  if (unmet != run.expectations.end()) {
    reasons.Add(Trust::kWithCare,
                absl::StrCat("The results are not all as the experiment expects: ",
                             unmet->text, "."));
  }
  for (const ArmResult& result : run.unfinished) {
    reasons.Add(
        Trust::kWithCare,
        absl::StrCat(result.name, " did not come to its end: ", result.error, "."));
  }
  if (!run.not_run.empty()) {
    reasons.Add(
        Trust::kWithCare,
        absl::StrCat("Not run, or not yet: ", absl::StrJoin(run.not_run, ", "), "."));
  }
  for (const ArmRuns* const arm : contest.left_out) {
    if (!arm->Verdicts().contains(Convergence::kDiverged)) continue;
    reasons.Add(Trust::kWithCare, absl::StrCat(NameOf(*arm), " diverged."));
  }
  AddValidity(arms, &reasons);
  AddCores(run, arms, &reasons);
  const bool once = std::all_of(arms.begin(), arms.end(),
                                [](const ArmRuns& arm) { return arm.runs.size() == 1; });
  if (once && contest.measure == Measure::kTimeToTarget && contest.arms.size() > 1) {
    reasons.Add(Trust::kWithCare,
                "Each arm was run once, with one seed: another one gives other times to "
                "the target (training.seeds).");
  }
  if (arms.empty()) reasons.Add(Trust::kNo, "No arm has come to its end.");
  reasons.MoveTo(&verdict);
  if (verdict.reasons.empty()) {
    verdict.trust = Trust::kWithCare;
    verdict.reasons = {"No certificate applies to these arms."};
  }
  return verdict;
}

}  // namespace psring
