// Records on their way from those who make them to the thread that sends them.
#ifndef PSRING_COMMON_RECORD_QUEUE_H_
#define PSRING_COMMON_RECORD_QUEUE_H_

#include <chrono>
#include <deque>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "proto/record.pb.h"

namespace psring {

// A batch is sent so long after its first record has come, or at once when it is full.
inline constexpr absl::Duration kBatchInterval = absl::Milliseconds(200);

// Gathers records into batches, in their order, and uses the memory of those that have
// been sent again, so that adding to one allocates nothing once work is under way. One
// thread at a time.
class RecordQueue {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Calls `add` with the batch that it is to append to. True: due() has changed.
  bool Add(absl::FunctionRef<void(RecordBatch& batch)> add);

  bool empty() const { return batches_.empty(); }
  // When the first batch is to be sent; long ago where it is full. Not while empty.
  TimePoint due() const;

  // Takes the first batch out. `batch` is one that has been sent, or new. Not while
  // empty.
  void Take(RecordBatch* batch);

 private:
  std::deque<RecordBatch> batches_;  // All but the last are full.
  TimePoint due_;                    // Of the first, full or not.
  RecordBatch spare_;                // Empty, with its memory.
};

}  // namespace psring

#endif  // PSRING_COMMON_RECORD_QUEUE_H_
