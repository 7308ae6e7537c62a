// Memory that all ranks of a job on one host share, and how they find it.
#ifndef PSRING_RING_SHARED_MEMORY_SEGMENT_H_
#define PSRING_RING_SHARED_MEMORY_SEGMENT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/device.h"
#include "common/mutex.h"
#include "common/tcp_socket.h"
#include "ring/shared_memory_layout.h"

namespace psring {

// What a rank says of itself and expects of the others.
struct SharedMemoryJob {
  std::string job;  // Unique among the jobs that run on the host at the same time.
  int rank = 0;
  int ranks = 0;
  uint64_t fingerprint = 0;  // Of everything that ranks must agree on.
  int64_t count = 0;         // Floats of each rank.
};

// One rank's mapping of the segment. Any thread.
//
// Who comes first creates the segment and gives it a name that is made of the job; the
// name goes as soon as all have come. From then on nothing is left when the last process
// ends, however it ends.
//
// Each rank holds a lock on one byte of the file, which the kernel releases with the
// process. By it the others tell who has died, and who comes to a name that processes
// killed at their start have left behind tells that nobody is there any more.
class SharedMemorySegment : public std::enable_shared_from_this<SharedMemorySegment> {
 public:
  // Blocks until all ranks have come. Requires 0 <= rank < ranks and count >= 0.
  //   kDeadlineExceeded: `timeout` passed first; the message says who did not come.
  //   kUnavailable: a rank that had come is lost, or the system refuses shared memory.
  //   kFailedPrecondition: the ranks that are there differ in fingerprint, number of
  //     ranks or count; the message shows both sides.
  //   kAlreadyExists: this rank of the job is there already.
  //   kResourceExhausted: the values do not fit into the host's shared memory.
  static absl::StatusOr<std::shared_ptr<SharedMemorySegment>> Open(
      const SharedMemoryJob& job, absl::Duration timeout);
  // Tells the others that this rank has left.
  ~SharedMemorySegment();
  SharedMemorySegment(const SharedMemorySegment&) = delete;
  SharedMemorySegment& operator=(const SharedMemorySegment&) = delete;

  int rank() const { return job_.rank; }
  int ranks() const { return job_.ranks; }
  uint64_t fingerprint() const { return job_.fingerprint; }

  // This rank's values, zero at first; keep the segment mapped.
  DeviceBuffer buffer();

  SharedMemoryMember& member(int rank) const;
  std::span<float> slot(int rank, int which) const;
  // Where in the segment this rank's memory at `values` lies, as the others see it too;
  // < 0: it lies elsewhere.
  int64_t PositionOf(std::span<const float> values) const;
  float* At(int64_t position) const;

  // Whether the rank's process has ended without a word. Costs a system call.
  bool IsLost(int rank) const;
  // For messages: "worker 2 (process 4711)".
  std::string NameOf(int rank) const;

  // Tells the others that this rank has failed, and why; the first one counts. To them, a
  // rank that was merely told to stop (kCancelled) is lost.
  void Fail(const absl::Status& status);
  // What a rank in state kFailed said.
  absl::Status FailureOf(int rank) const;
  // Tells the others that this rank takes part no longer, unless it has failed.
  void Leave();

 private:
  SharedMemorySegment(const SharedMemoryJob& job, FileDescriptor file, std::byte* memory);

  // Null: another rank was faster.
  static absl::StatusOr<std::shared_ptr<SharedMemorySegment>> Create(
      const SharedMemoryJob& job, const std::string& path);
  // Null: there is none, or none any more.
  static absl::StatusOr<std::shared_ptr<SharedMemorySegment>> Join(
      const SharedMemoryJob& job, const std::string& path);

  // Takes this rank's lock and place; false: they are taken.
  bool Enter();
  absl::Status AwaitAll(std::chrono::steady_clock::time_point deadline) const;
  absl::Status ReserveValues();
  SharedMemoryHead& head() const;

  const SharedMemoryJob job_;
  const SharedMemoryLayout layout_;
  const FileDescriptor file_;
  std::byte* const memory_;
  bool entered_ = false;  // Whether the rank's place is this object's. Const once opened.

  Mutex state_mutex_;  // Serializes changes of this rank's state.
};

}  // namespace psring

#endif  // PSRING_RING_SHARED_MEMORY_SEGMENT_H_
