#include "common/record_queue.h"

#include <cstdint>

#include "common/mutex.h"

namespace psring {
namespace {

// Far from gRPC's limit for a message.
constexpr int64_t kFullRows = 4096;

// Every step of a process has as many buckets as the next.
bool IsFull(const RecordBatch& batch) {
  const int64_t steps = batch.steps_size();
  const int64_t rows_per_step =
      steps == 0 ? 0 : 1 + batch.steps(batch.steps_size() - 1).buckets_size();
  return steps * rows_per_step + batch.contributions_size() >= kFullRows;
}

}  // namespace

bool RecordQueue::Add(absl::FunctionRef<void(RecordBatch& batch)> add) {
  const bool first = batches_.empty();
  if (first) due_ = SteadyDeadline(kBatchInterval);
  if (first || IsFull(batches_.back())) batches_.emplace_back().Swap(&spare_);
  add(batches_.back());
  return first || (batches_.size() == 1 && IsFull(batches_.front()));
}

RecordQueue::TimePoint RecordQueue::due() const {
  return IsFull(batches_.front()) ? TimePoint::min() : due_;
}

void RecordQueue::Take(RecordBatch* batch) {
  batch->Clear();
  batch->Swap(&batches_.front());
  spare_.Swap(&batches_.front());
  batches_.pop_front();
  if (!batches_.empty()) due_ = SteadyDeadline(kBatchInterval);
}

}  // namespace psring
