// run.db: everything that a comparison measured, written while it runs.
#ifndef PSRING_EXPERIMENTS_RUN_DATABASE_H_
#define PSRING_EXPERIMENTS_RUN_DATABASE_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "experiments/hosts/link_reading.h"
#include "experiments/planned_buckets.h"
#include "experiments/probe/probed_link.h"
#include "experiments/sqlite.h"
#include "experiments/tensor_digest.h"
#include "proto/coordinator.pb.h"
#include "proto/record.pb.h"

namespace psring {

// SQLite's integers have a sign: seeds from 2^63 on are negative in the file.
int64_t SeedAsInteger(uint64_t seed);

enum class Severity { kInfo, kWarning, kError };

// Writes one file. One thread at a time; whatever is added belongs to the run that was
// begun last, and one must have been; runs count from 1. A call that is not between Begin
// and Commit is a transaction of its own. Errors as in experiments/sqlite.h; after one
// the file holds what was committed, and nothing more should be written.
class RunDatabase {
 public:
  // A new file, in write-ahead mode: a process that is killed leaves every committed
  // transaction, and readers never wait.
  static absl::StatusOr<std::unique_ptr<RunDatabase>> Create(const std::string& path);

  const std::string& path() const { return connection_->path(); }

  absl::Status Begin();
  absl::Status Commit();

  // Of the comparison, whatever its runs; before or between them.
  absl::Status AddProbedLinks(const std::vector<ProbedLink>& probed);

  // `configuration` is the resolved experiment with the arm alone.
  absl::Status BeginRun(const JobSpec& spec, absl::string_view mode,
                        absl::string_view configuration, absl::Time started);
  absl::Status AddPlan(const std::vector<PlannedBucket>& buckets);
  // The last of a run: its steps' exposed time is cut by cause, too
  // (experiments/run_waits.h).
  absl::Status EndRun(absl::Time ended, const absl::Status& outcome);

  absl::Status AddProcess(const Hello& process, absl::Time joined);
  absl::Status EndProcess(const Hello& process, absl::Time left,
                          const absl::Status& outcome);
  absl::Status AddRecords(const Member& from, const RecordBatch& batch);
  // Of tensors that are not the same on all ranks.
  absl::Status AddTensorDigests(const std::vector<TensorDigest>& digests);
  // `process` is empty where the event is nobody's in particular.
  absl::Status AddEvent(absl::Time time, Severity severity, absl::string_view process,
                        absl::string_view text);
  // Sets what `process` has spent on a part of the recording so far.
  absl::Status SetRecordingTime(absl::string_view process, absl::string_view work,
                                absl::Duration processor);
  // Two readings of a run have different times.
  absl::Status AddHostsReading(const HostsReading& reading);

 private:
  explicit RunDatabase(std::unique_ptr<SqliteConnection> connection);
  // Prepares each statement once.
  absl::Status Execute(absl::string_view sql, std::initializer_list<SqliteValue> values);
  absl::Status AddStep(const StepRecord& step);
  absl::Status AddContribution(const Member& server,
                               const ContributionRecord& contribution);
  absl::Status AddTraffic(const TrafficRecord& traffic);

  const std::unique_ptr<SqliteConnection> connection_;
  std::map<std::string, SqliteStatement, std::less<>> statements_;  // By their text.
  int64_t run_ = 0;
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_RUN_DATABASE_H_
