#include "experiments/bench/step/result.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "experiments/bench/result.h"
#include "glog/logging.h"

namespace psring {
namespace {

double Milliseconds(double nanoseconds) { return nanoseconds / 1e6; }

std::vector<int64_t> TotalsOf(const StepRound& round) {
  std::vector<int64_t> totals;
  for (const StepTiming& step : round.steps) totals.push_back(step.total_ns);
  return totals;
}

std::vector<int64_t> MediansOf(const std::vector<StepRound>& rounds) {
  std::vector<int64_t> medians;
  for (const StepRound& round : rounds) medians.push_back(Median(TotalsOf(round)));
  return medians;
}

void SetParts(const std::vector<StepRound>& rounds, StepRow* row) {
  double count = 0, total = 0, forward = 0, backward = 0, exposed = 0, optimizer = 0;
  bool has_exposed = true;
  for (const StepRound& round : rounds) {
    for (const StepTiming& step : round.steps) {
      count += 1;
      total += static_cast<double>(step.total_ns);
      forward += static_cast<double>(step.forward_ns);
      backward += static_cast<double>(step.backward_ns);
      exposed += static_cast<double>(step.exposed_ns.value_or(0));
      optimizer += static_cast<double>(step.optimizer_ns);
      has_exposed = has_exposed && step.exposed_ns.has_value();
    }
  }
  row->forward_ms = Milliseconds(forward / count);
  row->backward_ms = Milliseconds(backward / count);
  if (has_exposed) row->exposed_ms = Milliseconds(exposed / count);
  row->optimizer_ms = Milliseconds(optimizer / count);
  row->other_ms =
      Milliseconds((total - forward - backward - exposed - optimizer) / count);
}

StepRow MakeRow(int64_t batch, const StepContestant& contestant,
                const std::vector<StepRound>& rounds) {
  StepRow row{.contestant = contestant};
  std::vector<int64_t> totals;
  for (const StepRound& round : rounds) {
    const std::vector<int64_t> more = TotalsOf(round);
    totals.insert(totals.end(), more.begin(), more.end());
  }
  const auto median_ns = static_cast<double>(Median(totals));
  row.min_ms =
      Milliseconds(static_cast<double>(*std::min_element(totals.begin(), totals.end())));
  row.median_ms = Milliseconds(median_ns);
  row.p99_ms = Milliseconds(static_cast<double>(Percentile(totals, 99)));
  row.samples_per_second =
      static_cast<double>(batch * contestant.ranks) / (median_ns / 1e9);
  SetParts(rounds, &row);
  row.first_loss = rounds.back().first_loss;
  row.last_loss = rounds.back().last_loss;
  return row;
}

}  // namespace

std::vector<RankSteps> RankStepsOf(const ArmRecords& records) {
  std::vector<RankSteps> ranks;
  for (const std::vector<StepRecord>& steps : records.steps) {
    RankSteps& rank = ranks.emplace_back();
    for (const StepRecord& step : steps) {
      rank.steps.push_back({.total_ns = step.total_ns(),
                            .forward_ns = step.forward_ns(),
                            .backward_ns = step.backward_ns(),
                            .exposed_ns = step.exposed_ns(),
                            .optimizer_ns = step.optimizer_ns()});
      rank.losses.push_back(step.loss());
    }
  }
  return ranks;
}

absl::StatusOr<StepRound> RoundOf(const std::vector<RankSteps>& ranks, int warm_up,
                                  int iterations) {
  const size_t end = static_cast<size_t>(warm_up) + iterations;
  StepRound round;
  if (ranks.empty()) return absl::InternalError("no rank has reported steps");
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankSteps& own = ranks[rank];
    CHECK_EQ(own.steps.size(), own.losses.size());
    if (own.steps.size() < end) {
      return absl::InternalError(absl::StrCat("rank ", rank, " has reported ",
                                              own.steps.size(), " steps of ", end));
    }
    round.first_loss += own.losses[0] / static_cast<double>(ranks.size());
    round.last_loss += own.losses[end - 1] / static_cast<double>(ranks.size());
  }
  for (size_t step = warm_up; step < end; ++step) {
    const auto slowest = std::max_element(
        ranks.begin(), ranks.end(), [step](const RankSteps& a, const RankSteps& b) {
          return a.steps[step].total_ns < b.steps[step].total_ns;
        });
    round.steps.push_back(slowest->steps[step]);
  }
  return round;
}

std::vector<StepRow> MakeStepRows(int64_t batch,
                                  const std::vector<StepContestant>& contestants,
                                  const std::vector<std::vector<StepRound>>& rounds) {
  CHECK_EQ(contestants.size(), rounds.size());
  std::vector<StepRow> rows;
  for (int c = 0; c < static_cast<int>(contestants.size()); ++c) {
    StepRow row = MakeRow(batch, contestants[c], rounds[c]);
    if (const std::optional<int> reference = StepReferenceOf(contestants, c)) {
      row.ratio = MedianRatio(MediansOf(rounds[c]), MediansOf(rounds[*reference]));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace psring
