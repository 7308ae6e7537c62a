// Threads that work on the parts of one operation at a time.
#ifndef PSRING_EXPERIMENTS_BENCH_APPLY_THREAD_TEAM_H_
#define PSRING_EXPERIMENTS_BENCH_APPLY_THREAD_TEAM_H_

#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "common/mutex.h"

namespace psring {

// One caller, which is the team's first thread. The others sleep between operations.
class ThreadTeam {
 public:
  // `size` > 0 threads, the caller's among them.
  explicit ThreadTeam(int size);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return size_; }

  // Calls work(0), ..., work(size - 1) at the same time, each in a thread of its own, and
  // returns when all have returned. What they have written, the caller sees.
  void Run(absl::FunctionRef<void(int thread)> work);

 private:
  void Serve(int thread);

  const int size_;
  Mutex mutex_;
  CondVar changed_;
  // Nothing between operations. It is the caller's, who waits for the end.
  std::optional<absl::FunctionRef<void(int thread)>> work_ ABSL_GUARDED_BY(mutex_);
  int64_t operation_ ABSL_GUARDED_BY(mutex_) = 0;  // Counted from 1.
  int working_ ABSL_GUARDED_BY(mutex_) = 0;        // Threads beside the caller.
  bool end_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> others_;
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_APPLY_THREAD_TEAM_H_
