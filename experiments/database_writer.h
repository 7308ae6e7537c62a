// The thread that writes a run database.
#ifndef PSRING_EXPERIMENTS_DATABASE_WRITER_H_
#define PSRING_EXPERIMENTS_DATABASE_WRITER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "experiments/run_database.h"

namespace psring {

// At most this long after it was added, a write begins to be committed.
inline constexpr absl::Duration kCommitInterval = absl::Milliseconds(500);

// Takes writes from any thread without making it wait, and does them in their order, all
// that have gathered in one transaction. After the first error nothing is written any
// more.
class DatabaseWriter {
 public:
  using Write = std::function<absl::Status(RunDatabase&)>;

  explicit DatabaseWriter(std::unique_ptr<RunDatabase> database);
  // Does what has been added, and closes the file.
  ~DatabaseWriter();
  DatabaseWriter(const DatabaseWriter&) = delete;
  DatabaseWriter& operator=(const DatabaseWriter&) = delete;

  void Add(Write write);
  // Blocks until everything added before is committed, without waiting for the interval
  // to pass; how long that takes is the disk's. The first error, if any.
  absl::Status Flush();

  // OK until the first error.
  absl::Status status() const;
  // Processor time of the thread until its last commit.
  absl::Duration processor_time() const;

 private:
  void Run();
  absl::Status DoAll(const std::vector<Write>& writes);

  const std::unique_ptr<RunDatabase> database_;  // The thread's.

  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<Write> waiting_ ABSL_GUARDED_BY(mutex_);
  int64_t added_ ABSL_GUARDED_BY(mutex_) = 0;  // Writes so far.
  int64_t done_ ABSL_GUARDED_BY(mutex_) = 0;   // Of these: committed, or given up.
  bool hurry_ ABSL_GUARDED_BY(mutex_) = false;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  absl::Duration processor_time_ ABSL_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_DATABASE_WRITER_H_
