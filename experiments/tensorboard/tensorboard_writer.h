// Writes what TensorBoard shows of a run, while it goes on.
#ifndef PSRING_EXPERIMENTS_TENSORBOARD_TENSORBOARD_WRITER_H_
#define PSRING_EXPERIMENTS_TENSORBOARD_TENSORBOARD_WRITER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "experiments/run_watcher.h"
#include "experiments/tensorboard/event_file.h"
#include "proto/coordinator.pb.h"
#include "proto/record.pb.h"

namespace psring {

// FOLDER/ARM-seed-N/events.out.tfevents.* of each run. A step has an event once all
// workers have gone past it, whether each of them has made it or not, or the run has
// ended, with these scalars:
//   loss                mean over the workers that had samples in it; none where compute
//                       is emulated
//   samples_per_second  of all workers, since they left the start barrier
//   exposed_share       of the step's time on all workers: exposed communication
// and each evaluation has one with accuracy and test_loss. The step of an event is the
// number of steps that had been made then, as in evaluations. Wall times are this
// machine's, as far apart as the workers' clocks had the steps' ends. Any thread.
class TensorBoardWriter final : public RunWatcher {
 public:
  explicit TensorBoardWriter(std::string folder) : folder_(std::move(folder)) {}

  // Makes the folder. InvalidArgument: that cannot be, or not be written to.
  static absl::Status CheckFolder(const std::string& folder);

  void Begin(const JobSpec& spec) override;
  void Reported(const Member& from, const RecordBatch& batch) override;
  void End() override;
  absl::Status status() const override;

 private:
  // What is known of a step that not all workers have gone past.
  struct Step {
    int64_t samples = 0;
    int workers_with_loss = 0;
    double loss = 0;  // Sum over these.
    int64_t exposed_ns = 0;
    int64_t total_ns = 0;
    int64_t end_ns = 0;  // Of the last worker.
  };

  void AddStep(const StepRecord& record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Those up to this index, in order.
  void WriteStepsUpTo(int64_t last) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The index up to which all workers have gone past all steps; -1: of some nothing is
  // known.
  int64_t LastOfAll() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteStep(int64_t index, const Step& step) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteEvaluation(const EvaluationRecord& evaluation)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsEvaluated(int64_t steps_made) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string folder_;
  mutable Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<EventFile> file_ ABSL_GUARDED_BY(mutex_);  // Null between runs.
  int workers_ ABSL_GUARDED_BY(mutex_) = 0;
  bool has_loss_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t all_steps_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t evaluation_interval_ ABSL_GUARDED_BY(mutex_) = 0;
  // When the workers' clocks were at zero.
  std::optional<absl::Time> start_ ABSL_GUARDED_BY(mutex_);
  std::map<int64_t, int64_t> latest_ ABSL_GUARDED_BY(mutex_);  // Step, by rank.
  std::map<int64_t, Step> open_ ABSL_GUARDED_BY(mutex_);       // By index.
  // Of all steps that have been written.
  int64_t samples_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t end_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  // When a step ended after which there is an evaluation, by the number of steps.
  std::map<int64_t, int64_t> ends_ns_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_TENSORBOARD_TENSORBOARD_WRITER_H_
