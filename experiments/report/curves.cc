#include "experiments/report/curves.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/status_macros.h"
#include "experiments/run_database.h"

namespace psring {
namespace {

constexpr int64_t kStretches = 100;

// The points of several runs of an arm at the same place, which all of them have.
CurvePoint Together(int64_t step, const std::vector<LossPoint>& points) {
  std::vector<double> seconds;
  std::vector<double> bytes;
  std::vector<double> y;
  for (const LossPoint& point : points) {
    seconds.push_back(point.seconds);
    bytes.push_back(point.bytes);
    y.push_back(point.loss);
  }
  return {.step = step,
          .seconds = ArmRuns::SpreadOf(std::move(seconds)).median,
          .bytes = ArmRuns::SpreadOf(std::move(bytes)).median,
          .y = ArmRuns::SpreadOf(std::move(y))};
}

// Where all runs have a point, in order.
Curve CurveOf(const std::string& arm, const std::vector<std::vector<LossPoint>>& runs) {
  Curve curve = {.arm = arm, .points = {}};
  size_t common = runs.front().size();
  for (const auto& run : runs) common = std::min(common, run.size());
  for (size_t i = 0; i < common; ++i) {
    std::vector<LossPoint> here;
    for (const auto& run : runs) here.push_back(run[i]);
    curve.points.push_back(Together(here.front().step, here));
  }
  return curve;
}

}  // namespace

absl::StatusOr<std::vector<LossPoint>> ReadLosses(SqliteConnection& database,
                                                  const ArmResult& run) {
  ASSIGN_OR_RETURN(
      SqliteStatement row,
      database.Prepare("SELECT rank, start_ns + total_ns AS end_ns, samples, loss, "
                       "payload_out, payload_in FROM steps JOIN runs USING (run) "
                       "WHERE name = ? AND seed = ? ORDER BY end_ns, rank"));
  RETURN_IF_ERROR(row.Bind({run.name, SeedAsInteger(run.seed)}));
  const int64_t stretch = run.workers * std::max<int64_t>(1, run.steps / kStretches);
  std::vector<LossPoint> points;
  std::vector<int64_t> sent(run.workers);  // By rank.
  int64_t records = 0;
  double sum = 0;
  int64_t losses = 0;
  int64_t in_stretch = 0;
  LossPoint last;
  const auto close = [&] {
    last.step = run.restored_step.value_or(0) + records / run.workers;
    last.bytes = 0;
    for (const int64_t bytes : sent) last.bytes += static_cast<double>(bytes);
    last.loss = losses == 0 ? std::numeric_limits<double>::quiet_NaN()
                            : sum / static_cast<double>(losses);
    points.push_back(last);
    sum = 0;
    losses = in_stretch = 0;
  };
  while (true) {
    ASSIGN_OR_RETURN(const bool more, row.Next());
    if (!more) break;
    ++records;
    ++in_stretch;
    last.seconds = static_cast<double>(row.Integer(1)) * 1e-9;
    if (row.Integer(2) > 0) {
      // What is NULL was not finite, and neither is the sum.
      sum += row.IsNull(3) ? std::numeric_limits<double>::quiet_NaN() : row.Real(3);
      ++losses;
    }
    // A server's answers are sent, too.
    sent[row.Integer(0)] = row.Integer(4) + (run.servers > 0 ? row.Integer(5) : 0);
    if (in_stretch == stretch) close();
  }
  // What is left says less than the others where it is but a few steps.
  if (2 * in_stretch >= stretch) close();
  return points;
}

absl::StatusOr<std::vector<Curve>> ReadLossCurves(SqliteConnection& database,
                                                  const RunResults& run) {
  std::vector<ArmResult> all = run.ended;
  all.insert(all.end(), run.unfinished.begin(), run.unfinished.end());
  std::vector<Curve> curves;
  for (const ArmRuns& arm : GroupByArm(all)) {
    if (!arm.first().learns) continue;
    std::vector<std::vector<LossPoint>> losses;
    for (const ArmResult& one : arm.runs) {
      ASSIGN_OR_RETURN(std::vector<LossPoint> points, ReadLosses(database, one));
      losses.push_back(std::move(points));
    }
    Curve curve = CurveOf(arm.first().name, losses);
    if (curve.points.size() > 1) curves.push_back(std::move(curve));
  }
  return curves;
}

std::vector<Curve> AccuracyCurves(const std::vector<ArmRuns>& arms) {
  std::vector<Curve> curves;
  for (const ArmRuns& arm : arms) {
    std::vector<std::vector<LossPoint>> runs;
    for (const ArmResult& run : arm.runs) {
      std::vector<LossPoint>& points = runs.emplace_back();
      for (const EvaluationPoint& point : run.evaluations) {
        points.push_back({.step = point.step,
                          .seconds = point.seconds,
                          .bytes = static_cast<double>(point.bytes),
                          .loss = point.accuracy});
      }
    }
    Curve curve = CurveOf(arm.first().name, runs);
    if (curve.points.size() > 1) curves.push_back(std::move(curve));
  }
  return curves;
}

}  // namespace psring
