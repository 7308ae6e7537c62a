#include "experiments/trace/bucket_path.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiments/text.h"
#include "experiments/trace/step_events.h"
#include "experiments/waits.h"

namespace psring {
namespace {

// A rank's part in it. Times on the coordinator's clock, durations on the rank's own.
struct Rank {
  int rank = 0;
  int64_t start_ns = 0;
  int64_t ready_ns = 0;
  int64_t launched_ns = 0;
  int64_t done_ns = 0;
  int64_t awaiting_ns = 0;
  int64_t moving_ns = 0;
  int64_t working_ns = 0;
};

// Who did something, and when.
struct Moment {
  std::string who;
  int64_t time_ns = 0;
};

std::string Microseconds(int64_t ns) {
  return absl::StrFormat("%.1f", static_cast<double>(ns) / 1000);
}

std::string Count(int64_t count, const std::string& what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

std::vector<Rank> RanksOf(const TracedRun& run, int bucket,
                          std::span<const StepRecord* const> steps) {
  std::vector<Rank> ranks;
  for (int position = 0; position < run.workers; ++position) {
    const int rank = run.order.RankAt(position);
    const StepRecord* const step = steps[rank];
    if (step == nullptr || bucket >= step->buckets_size()) continue;
    const BucketTimes& times = step->buckets(bucket);
    const BucketWait wait =
        WaitsOf(rank, steps, run.frame.lockstep, run.frame.clocks)[bucket];
    const int64_t moves_ns = std::max(wait.begun_ns, wait.awaited_until_ns);
    ranks.push_back({.rank = rank,
                     .start_ns = run.OfWorker(rank, step->start_ns()),
                     .ready_ns = run.OfWorker(rank, times.ready_ns()),
                     .launched_ns = run.OfWorker(rank, times.launched_ns()),
                     .done_ns = run.OfWorker(rank, times.done_ns()),
                     .awaiting_ns = moves_ns - wait.begun_ns,
                     .moving_ns = wait.done_ns - moves_ns,
                     .working_ns = times.working_ns()});
  }
  return ranks;
}

// "  last ready: worker 1 at 112.3 us, 12.3 us after worker 0\n"
std::string Last(const std::string& what, std::vector<Moment> moments, int64_t zero_ns) {
  if (moments.empty()) return "";
  std::stable_sort(moments.begin(), moments.end(), [](const Moment& a, const Moment& b) {
    return a.time_ns > b.time_ns;
  });
  std::string line = absl::StrCat("  last ", what, ": ", moments[0].who, " at ",
                                  Microseconds(moments[0].time_ns - zero_ns), " us");
  if (moments.size() > 1) {
    absl::StrAppend(&line, ", ", Microseconds(moments[0].time_ns - moments[1].time_ns),
                    " us after ", moments[1].who);
  }
  return absl::StrCat(line, "\n");
}

std::string RankTable(const TracedRun& run, int bucket, const std::vector<Rank>& ranks,
                      int64_t zero_ns) {
  const bool ring = run.buckets.size() > static_cast<size_t>(bucket) &&
                    run.buckets[bucket].algorithm == "ring" && run.unknown.empty() &&
                    run.workers > 1;
  std::vector<std::string> header = {"worker"};
  if (ring) header.push_back("sends to");
  for (const char* column : {"begins us", "ready us", "launched us", "back us",
                             "awaits peers us", "moves us", "worked on us"}) {
    header.push_back(column);
  }
  std::vector<std::vector<std::string>> rows;
  for (const Rank& rank : ranks) {
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(absl::StrCat(rank.rank));
    if (ring) {
      const int position = run.order.PositionOf(rank.rank);
      row.push_back(absl::StrCat(run.order.RankAt((position + 1) % run.workers)));
    }
    for (const int64_t time_ns :
         {rank.start_ns, rank.ready_ns, rank.launched_ns, rank.done_ns}) {
      row.push_back(Microseconds(time_ns - zero_ns));
    }
    for (const int64_t ns : {rank.awaiting_ns, rank.moving_ns, rank.working_ns}) {
      row.push_back(Microseconds(ns));
    }
  }
  return FormatTable(header, rows);
}

std::string SlotTable(const TracedRun& run, std::span<const TracedContribution> made,
                      int64_t zero_ns) {
  std::vector<std::string> header = {"slot",       "server",       "worker",
                                     "applied us", "version read", "onto version"};
  std::vector<std::vector<std::string>> rows;
  for (const TracedContribution& contribution : made) {
    if (rows.size() == kMostRows) break;
    const int64_t time_ns = run.OfServer(contribution.server, contribution.time_ns);
    rows.push_back({absl::StrCat(contribution.slot), absl::StrCat(contribution.server),
                    absl::StrCat(contribution.rank), Microseconds(time_ns - zero_ns),
                    absl::StrCat(contribution.version_read),
                    absl::StrCat(contribution.version)});
    if (contribution.dropped.empty()) continue;
    header.resize(7, "dropped");
    rows.back().push_back(contribution.dropped);
  }
  std::string table = FormatTable(header, rows);
  if (made.size() > rows.size()) {
    absl::StrAppend(&table, "  and ", made.size() - rows.size(), " more\n");
  }
  return table;
}

std::string NotRecorded(const TracedRun& run) {
  if (run.servers > 0) {
    return "  not recorded: when a push is there and when its answer leaves, which is "
           "between launched and back\n";
  }
  if (run.workers > 1) {
    return "  not recorded: when its segments move, which is between launched and back\n";
  }
  return "";
}

// Those of the bucket, by slot and worker.
std::vector<TracedContribution> OfBucket(
    const TracedRun& run, int bucket, std::span<const TracedContribution> contributions) {
  std::vector<TracedContribution> made;
  for (const TracedContribution& contribution : contributions) {
    const auto slot = static_cast<size_t>(contribution.slot);
    if (slot < run.bucket_of_slot.size() && run.bucket_of_slot[slot] == bucket) {
      made.push_back(contribution);
    }
  }
  std::stable_sort(made.begin(), made.end(),
                   [](const TracedContribution& a, const TracedContribution& b) {
                     return a.slot != b.slot ? a.slot < b.slot : a.rank < b.rank;
                   });
  return made;
}

}  // namespace

std::string DescribeBucketPath(const TracedRun& run, int bucket,
                               std::span<const StepRecord* const> steps,
                               std::span<const TracedContribution> contributions) {
  const std::vector<Rank> ranks = RanksOf(run, bucket, steps);
  const Rank& first = *std::min_element(
      ranks.begin(), ranks.end(),
      [](const Rank& a, const Rank& b) { return a.start_ns < b.start_ns; });
  const int64_t zero_ns = first.start_ns;
  std::string text = absl::StrCat(run.title, ": ", BucketName(run, bucket));
  if (bucket < static_cast<int>(run.buckets.size())) {
    absl::StrAppend(&text, ", ", WithThousands(run.buckets[bucket].bytes), " bytes");
  }
  absl::StrAppend(&text, "\n  ", run.mode, "; ", Count(run.workers, "worker"));
  if (run.servers > 0) absl::StrAppend(&text, ", ", Count(run.servers, "server"));
  absl::StrAppend(&text, "\n  times in step ", steps[first.rank]->step(),
                  " since worker ", first.rank, " began it; clocks agree within ",
                  Microseconds(run.frame.clocks.error_ns()), " us\n\n",
                  RankTable(run, bucket, ranks, zero_ns), "\n");
  const std::vector<TracedContribution> made = OfBucket(run, bucket, contributions);
  if (!made.empty()) absl::StrAppend(&text, SlotTable(run, made, zero_ns), "\n");

  const auto last_rank = [&](const std::string& what, int64_t Rank::*time) {
    std::vector<Moment> moments;
    for (const Rank& rank : ranks) {
      moments.push_back({absl::StrCat("worker ", rank.rank), rank.*time});
    }
    return Last(what, moments, zero_ns);
  };
  absl::StrAppend(&text, last_rank("ready", &Rank::ready_ns),
                  last_rank("launched", &Rank::launched_ns));
  std::vector<Moment> slots;  // The last of each.
  for (const TracedContribution& contribution : made) {
    if (!contribution.dropped.empty()) continue;
    const int64_t time_ns = run.OfServer(contribution.server, contribution.time_ns);
    const std::string who =
        absl::StrCat("slot ", contribution.slot, " of server ", contribution.server);
    if (slots.empty() || slots.back().who != who) {
      slots.push_back({who, time_ns});
    } else {
      slots.back().time_ns = std::max(slots.back().time_ns, time_ns);
    }
  }
  absl::StrAppend(&text, Last("applied", slots, zero_ns),
                  last_rank("back", &Rank::done_ns));
  for (int rank = 0; rank < run.workers; ++rank) {
    if (steps[rank] == nullptr) {
      absl::StrAppend(&text, "  worker ", rank, " has not recorded this step\n");
    }
  }
  absl::StrAppend(&text, NotRecorded(run));
  if (!run.unknown.empty()) {
    absl::StrAppend(
        &text, "  not known, which tensors and slots are in it: ", run.unknown, "\n");
  }
  return text;
}

}  // namespace psring
