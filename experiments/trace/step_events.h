// The events of a trace, step by step.
#ifndef PSRING_EXPERIMENTS_TRACE_STEP_EVENTS_H_
#define PSRING_EXPERIMENTS_TRACE_STEP_EVENTS_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "experiments/trace/event_writer.h"
#include "experiments/trace/traced_run.h"
#include "proto/record.pb.h"

namespace psring {

// "bucket 3: tensors layer1.weight and layer1.bias"; without names where there are none.
std::string BucketName(const TracedRun& run, int bucket);

// Writes the events of one run, each process of which is one of the trace:
//   worker: "compute" has each step and, within it, its parts; "communication" has each
//           bucket from when it was ready until it was done, and within it what it was on
//           its way for. Buckets that overlap stand in several such lanes.
//   server: "server" has the moment of each contribution, an event without duration: only
//           its end is recorded.
//   arrows: on servers from where a worker launches a bucket by each slot's contribution
//   to
//           where the worker has the bucket back; on a ring from where a rank launches a
//           bucket to where its right neighbour has the sum. The ends of an arrow are
//           recorded, what lies between them is not. One that would go back in time, by
//           less than clocks agree, is left out and counted.
// All of a worker's steps come in their order. `writer` and `run` outlive it.
class StepEvents {
 public:
  // The first process of the run has the number `first_process`, and the next one, for
  // whoever comes next, is next_process(). Arrows count from `first_arrow`. `zero_ns` is
  // the trace's zero on the coordinator's clock: what began before it is not shown.
  StepEvents(const TracedRun* run, int first_process, int64_t first_arrow,
             int64_t zero_ns, EventWriter* writer);

  void Take(std::span<const StepRecord* const> steps,
            std::span<const TracedContribution> contributions);

  int next_process() const { return first_process_ + run_->workers + run_->servers; }
  int64_t next_arrow() const { return next_arrow_; }
  int64_t arrows_left_out() const { return arrows_left_out_; }

 private:
  // Where a bucket's exchange is drawn.
  struct Drawn {
    Lane lane;
    int64_t launched_ns = 0;  // Since the trace's zero, as the others below.
    int64_t done_ns = 0;
  };
  using DrawnBuckets = std::map<std::pair<int, int>, Drawn>;  // By rank and bucket.

  int64_t OfWorker(int rank, int64_t time_ns) const;
  void TakeParts(const StepRecord& step, std::span<const StepRecord* const> steps);
  void TakeFinish(const StepRecord& step, std::span<const StepRecord* const> steps);
  void TakeBuckets(const StepRecord& step, DrawnBuckets* drawn);
  Lane FreeLane(int rank, int64_t begin_ns, int64_t end_ns);
  void TakeContribution(const TracedContribution& made, const DrawnBuckets& drawn);
  void ArrowsRoundTheRing(const DrawnBuckets& drawn);

  const TracedRun* const run_;
  const int first_process_;
  const int64_t zero_ns_;
  EventWriter* const writer_;
  int64_t next_arrow_;
  int64_t arrows_left_out_ = 0;
  // By rank, of each of its communication lanes: when its last event ends.
  std::vector<std::vector<int64_t>> lanes_;
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_TRACE_STEP_EVENTS_H_
