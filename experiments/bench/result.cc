#include "experiments/bench/result.h"

#include <algorithm>
#include <cmath>

#include "glog/logging.h"

namespace psring {
namespace {

std::vector<int64_t> MediansOf(const std::vector<BenchRound>& rounds) {
  std::vector<int64_t> medians;
  for (const BenchRound& round : rounds) medians.push_back(Median(round.times_ns));
  return medians;
}

BenchRow MakeRow(int64_t size_bytes, int ranks, const Contestant& contestant,
                 const std::vector<BenchRound>& rounds) {
  std::vector<int64_t> times;
  BenchRow row{.size_bytes = size_bytes, .contestant = contestant};
  for (const BenchRound& round : rounds) {
    times.insert(times.end(), round.times_ns.begin(), round.times_ns.end());
    if (round.wrong) row.wrong = row.wrong.value_or(0) + *round.wrong;
  }
  const auto median_ns = static_cast<double>(Median(times));
  row.min_us = static_cast<double>(*std::min_element(times.begin(), times.end())) / 1e3;
  row.median_us = median_ns / 1e3;
  row.p99_us = static_cast<double>(Percentile(times, 99)) / 1e3;
  row.algbw = static_cast<double>(size_bytes) / median_ns;
  row.busbw = row.algbw * 2 * (ranks - 1) / ranks;
  return row;
}

}  // namespace

int64_t Percentile(std::vector<int64_t> values, double percent) {
  CHECK(!values.empty());
  const auto count = static_cast<double>(values.size());
  const auto nearest =
      std::max<int64_t>(1, static_cast<int64_t>(std::ceil(percent / 100 * count)));
  const auto place = values.begin() + (nearest - 1);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

int64_t Median(std::vector<int64_t> values) { return Percentile(std::move(values), 50); }

double MedianRatio(const std::vector<int64_t>& times,
                   const std::vector<int64_t>& reference) {
  CHECK_EQ(times.size(), reference.size());
  std::vector<double> ratios;
  for (size_t round = 0; round < times.size(); ++round) {
    ratios.push_back(static_cast<double>(times[round]) /
                     static_cast<double>(reference[round]));
  }
  std::sort(ratios.begin(), ratios.end());
  const size_t half = ratios.size() / 2;
  return ratios.size() % 2 == 1 ? ratios[half] : (ratios[half - 1] + ratios[half]) / 2;
}

std::optional<int> ReferenceOf(const std::vector<Contestant>& contestants, int index) {
  for (size_t i = 0; i < contestants.size(); ++i) {
    if (contestants[i].peer == "psring" &&
        contestants[i].transport == contestants[index].transport) {
      return static_cast<int>(i);
    }
  }
  return std::nullopt;
}

std::vector<BenchRow> MakeRows(int64_t size_bytes, int ranks,
                               const std::vector<Contestant>& contestants,
                               const std::vector<std::vector<BenchRound>>& rounds) {
  CHECK_EQ(contestants.size(), rounds.size());
  std::vector<BenchRow> rows;
  for (int c = 0; c < static_cast<int>(contestants.size()); ++c) {
    BenchRow row = MakeRow(size_bytes, ranks, contestants[c], rounds[c]);
    const std::optional<int> reference = ReferenceOf(contestants, c);
    if (reference && *reference != c) {
      row.ratio = MedianRatio(MediansOf(rounds[c]), MediansOf(rounds[*reference]));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace psring
