#include "experiments/trace/step_events.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "experiments/text.h"
#include "experiments/waits.h"
#include "nlohmann/json.hpp"

namespace psring {
namespace {

using nlohmann::ordered_json;

constexpr int kCompute = 1;  // Lanes of a worker; the second is the first of several.
constexpr int kCommunication = 2;
constexpr int kServer = 1;
constexpr size_t kMostNames = 4;

double Microseconds(int64_t ns) { return static_cast<double>(ns) / 1000; }

ordered_json ArgsOf(const Causes& causes) {
  ordered_json args = {{"not_ready_us", Microseconds(causes.not_ready_ns)},
                       {"peer_late_us", Microseconds(causes.peer_late_ns)},
                       {"on_wire_us", Microseconds(causes.on_wire_ns)},
                       {"working_us", Microseconds(causes.working_ns)}};
  if (causes.waited_for) args["waited_for"] = *causes.waited_for;
  return args;
}

}  // namespace

std::string BucketName(const TracedRun& run, int bucket) {
  const std::string name = absl::StrCat("bucket ", bucket);
  if (bucket >= static_cast<int>(run.buckets.size()) ||
      run.buckets[bucket].tensors.empty()) {
    return name;
  }
  return absl::StrCat(name, ": ",
                      Enumerate("tensor", run.buckets[bucket].tensors, kMostNames));
}

StepEvents::StepEvents(const TracedRun* run, int first_process, int64_t first_arrow,
                       int64_t zero_ns, EventWriter* writer)
    : run_(run),
      first_process_(first_process),
      zero_ns_(zero_ns),
      writer_(writer),
      next_arrow_(first_arrow),
      lanes_(run->workers) {
  int process = first_process;
  for (int rank = 0; rank < run->workers; ++rank, ++process) {
    writer->NameProcess(process, absl::StrCat(run->title, " / worker ", rank));
    writer->NameLane({.process = process, .thread = kCompute}, "compute");
  }
  for (int server = 0; server < run->servers; ++server, ++process) {
    writer->NameProcess(process, absl::StrCat(run->title, " / server ", server));
    writer->NameLane({.process = process, .thread = kServer}, "server");
  }
}

void StepEvents::Take(std::span<const StepRecord* const> steps,
                      std::span<const TracedContribution> contributions) {
  DrawnBuckets drawn;
  for (const StepRecord* const step : steps) {
    if (step == nullptr ||
        OfWorker(static_cast<int>(step->rank()), step->start_ns()) < 0) {
      continue;
    }
    TakeParts(*step, steps);
    TakeBuckets(*step, &drawn);
  }
  for (const TracedContribution& contribution : contributions) {
    TakeContribution(contribution, drawn);
  }
  ArrowsRoundTheRing(drawn);
}

int64_t StepEvents::OfWorker(int rank, int64_t time_ns) const {
  return run_->OfWorker(rank, time_ns) - zero_ns_;
}

void StepEvents::TakeParts(const StepRecord& step,
                           std::span<const StepRecord* const> steps) {
  const int rank = static_cast<int>(step.rank());
  const Lane lane = {.process = first_process_ + rank, .thread = kCompute};
  writer_->Complete(
      lane, absl::StrCat("step ", step.step()), OfWorker(rank, step.start_ns()),
      OfWorker(rank, step.start_ns() + step.total_ns()), {{"step", step.step()}});
  ordered_json passes;
  if (run_->micro_batches > 1) {
    passes["inferred"] = absl::StrCat("forward and backward of ", run_->micro_batches,
                                      " passes, which take turns, each drawn as one");
  }
  int64_t at = step.start_ns();
  const auto part = [&](const char* name, int64_t length_ns, const ordered_json& args) {
    if (length_ns > 0) {
      writer_->Complete(lane, name, OfWorker(rank, at), OfWorker(rank, at + length_ns),
                        args);
    }
    at += length_ns;
  };
  part("record", step.recording_ns(), nullptr);
  part("data", step.data_ns(), nullptr);
  part("forward", step.forward_ns(), passes);
  part("backward", step.backward_ns(), passes);
  TakeFinish(step, steps);
}

void StepEvents::TakeFinish(const StepRecord& step,
                            std::span<const StepRecord* const> steps) {
  const int rank = static_cast<int>(step.rank());
  const Lane lane = {.process = first_process_ + rank, .thread = kCompute};
  const std::vector<BucketWait> waits =
      WaitsOf(rank, steps, run_->frame.lockstep, run_->frame.clocks);
  const bool both = step.exposed_ns() > 0 && step.optimizer_ns() > 0;
  ordered_json inferred;
  if (both) {
    inferred["inferred"] =
        "only the sum of the optimizer's times is recorded: they are taken to follow "
        "each "
        "bucket, in proportion to its bytes";
  }
  int64_t at = FinishBegin(step);
  const int64_t end = at + step.exposed_ns() + step.optimizer_ns();
  const auto optimizer_until = [&](int64_t until) {
    if (until > at) {
      writer_->Complete(lane, "optimizer", OfWorker(rank, at), OfWorker(rank, until),
                        inferred);
    }
    at = until;
  };
  for (const TimeSpan& span : ExposedSpans(step, run_->frame.bucket_bytes)) {
    optimizer_until(span.begin_ns);
    ordered_json args = ArgsOf(CutByCause({&span, 1}, waits));
    args.update(inferred.is_null() ? ordered_json::object() : inferred);
    writer_->Complete(lane, "exposed", OfWorker(rank, span.begin_ns),
                      OfWorker(rank, span.end_ns), args);
    at = span.end_ns;
  }
  optimizer_until(end);
}

void StepEvents::TakeBuckets(const StepRecord& step, DrawnBuckets* drawn) {
  const int rank = static_cast<int>(step.rank());
  for (int bucket = 0; bucket < step.buckets_size(); ++bucket) {
    const BucketTimes& times = step.buckets(bucket);
    const int64_t ready_ns = OfWorker(rank, times.ready_ns());
    const int64_t launched_ns = OfWorker(rank, times.launched_ns());
    const int64_t done_ns = OfWorker(rank, times.done_ns());
    const Lane lane = FreeLane(rank, ready_ns, done_ns);
    ordered_json args = {{"step", step.step()}};
    if (bucket < static_cast<int>(run_->buckets.size())) {
      args["bytes"] = run_->buckets[bucket].bytes;
    }
    writer_->Complete(lane, BucketName(*run_, bucket), ready_ns, done_ns, args);
    writer_->Complete(lane, "exchange", launched_ns, done_ns,
                      {{"step", step.step()},
                       {"bucket", bucket},
                       {"working_us", Microseconds(times.working_ns())}});
    drawn->insert(
        {{rank, bucket}, {.lane = lane, .launched_ns = launched_ns, .done_ns = done_ns}});
  }
}

Lane StepEvents::FreeLane(int rank, int64_t begin_ns, int64_t end_ns) {
  std::vector<int64_t>& ends = lanes_[rank];
  size_t lane = 0;
  while (lane < ends.size() && ends[lane] > begin_ns) ++lane;
  const Lane found = {.process = first_process_ + rank,
                      .thread = kCommunication + static_cast<int>(lane)};
  if (lane == ends.size()) {
    ends.push_back(end_ns);
    writer_->NameLane(
        found, lane == 0 ? "communication" : absl::StrCat("communication ", lane + 1));
  }
  ends[lane] = end_ns;
  return found;
}

void StepEvents::TakeContribution(const TracedContribution& made,
                                  const DrawnBuckets& drawn) {
  if (made.server < 0 || made.server >= run_->servers) return;
  const Lane lane = {.process = first_process_ + run_->workers + made.server,
                     .thread = kServer};
  const int64_t time_ns = run_->OfServer(made.server, made.time_ns) - zero_ns_;
  if (time_ns < 0) return;
  ordered_json args = {{"worker", made.rank},
                       {"step", made.step},
                       {"version_read", made.version_read},
                       {"version", made.version},
                       {"clock_lag", made.clock_lag}};
  if (run_->by_rounds) {
    args["round"] = made.round;
    args["inferred"] = "the worker's own step, by the order of its contributions";
  }
  const bool known = made.slot < static_cast<int>(run_->bucket_of_slot.size());
  const int bucket = known ? run_->bucket_of_slot[made.slot] : -1;
  if (known) args["bucket"] = bucket;
  if (!made.dropped.empty()) args["dropped"] = made.dropped;
  writer_->Complete(
      lane, absl::StrCat(made.dropped.empty() ? "apply slot " : "drop slot ", made.slot),
      time_ns, time_ns, args);
  const auto found = drawn.find({made.rank, bucket});
  if (found == drawn.end()) return;
  const Drawn& exchange = found->second;
  if (exchange.launched_ns > time_ns) {
    ++arrows_left_out_;
    return;
  }
  const int64_t id = next_arrow_++;
  writer_->Arrow(Flow::kStart, id, exchange.lane, "gradient", exchange.launched_ns,
                 {{"inferred", "pushed at this moment or later"}});
  if (exchange.done_ns < time_ns) {
    ++arrows_left_out_;
    writer_->Arrow(Flow::kFinish, id, lane, "gradient", time_ns);
    return;
  }
  writer_->Arrow(Flow::kStep, id, lane, "gradient", time_ns);
  writer_->Arrow(Flow::kFinish, id, exchange.lane, "gradient", exchange.done_ns,
                 {{"inferred", "answered at this moment or before"}});
}

void StepEvents::ArrowsRoundTheRing(const DrawnBuckets& drawn) {
  for (const auto& [key, from] : drawn) {
    const auto [rank, bucket] = key;
    if (bucket >= static_cast<int>(run_->buckets.size()) ||
        run_->buckets[bucket].algorithm != "ring" || run_->workers < 2 ||
        !run_->unknown.empty()) {
      continue;
    }
    const int position = run_->order.PositionOf(rank);
    const int right = run_->order.RankAt((position + 1) % run_->workers);
    const auto to = drawn.find({right, bucket});
    if (to == drawn.end()) continue;
    if (to->second.done_ns < from.launched_ns) {
      ++arrows_left_out_;
      continue;
    }
    const int64_t id = next_arrow_++;
    writer_->Arrow(Flow::kStart, id, from.lane, "segments", from.launched_ns,
                   {{"inferred", "segments go from this moment on"}});
    writer_->Arrow(Flow::kFinish, id, to->second.lane, "segments", to->second.done_ns,
                   {{"inferred", "the last segment came at this moment or before"}});
  }
}

}  // namespace psring
