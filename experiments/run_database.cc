#include "experiments/run_database.h"

#include <initializer_list>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/status_macros.h"
#include "experiments/arm_mode.h"
#include "experiments/ring_config.h"
#include "experiments/run_schema.h"
#include "experiments/run_waits.h"
#include "experiments/step_config.h"

namespace psring {

int64_t SeedAsInteger(uint64_t seed) { return static_cast<int64_t>(seed); }

namespace {

// A killed process loses nothing that was committed; only a machine that loses power may
// lose the last transactions, and never the file.
constexpr char kWriteAhead[] = "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;";

const char* Name(Severity severity) {
  switch (severity) {
    case Severity::kInfo:
      return "info";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      return "error";
  }
  return "";
}

const char* RoleName(const Member& member) {
  return member.role() == SERVER ? "server" : "worker";
}

std::string Outcome(const absl::Status& status) {
  return status.ok() ? "ok" : std::string(status.message());
}

std::string Hex(uint64_t bits) { return absl::StrFormat("%016x", bits); }

SqliteValue Dropped(ContributionRecord::Outcome outcome) {
  switch (outcome) {
    case ContributionRecord::LATE:
      return absl::string_view("late");
    case ContributionRecord::STALE:
      return absl::string_view("stale");
    default:
      return nullptr;
  }
}

template <typename Value>
SqliteValue OrNull(bool there, Value value) {
  return there ? SqliteValue(value) : SqliteValue(nullptr);
}

}  // namespace

RunDatabase::RunDatabase(std::unique_ptr<SqliteConnection> connection)
    : connection_(std::move(connection)) {}

absl::StatusOr<std::unique_ptr<RunDatabase>> RunDatabase::Create(
    const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<SqliteConnection> connection,
                   SqliteConnection::Open(path));
  RETURN_IF_ERROR(connection->Execute(kWriteAhead));
  RETURN_IF_ERROR(connection->Execute(absl::StrCat(
      "BEGIN;", kRunSchema, "PRAGMA user_version = ", kRunSchemaVersion, "; COMMIT;")));
  return std::unique_ptr<RunDatabase>(new RunDatabase(std::move(connection)));
}

absl::Status RunDatabase::Execute(absl::string_view sql,
                                  std::initializer_list<SqliteValue> values) {
  auto statement = statements_.find(sql);
  if (statement == statements_.end()) {
    ASSIGN_OR_RETURN(SqliteStatement prepared, connection_->Prepare(sql));
    statement = statements_.emplace(sql, std::move(prepared)).first;
  }
  return statement->second.Execute(values);
}

absl::Status RunDatabase::Begin() { return Execute("BEGIN", {}); }

absl::Status RunDatabase::Commit() { return Execute("COMMIT", {}); }

absl::Status RunDatabase::AddProbedLinks(const std::vector<ProbedLink>& probed) {
  for (const ProbedLink& link : probed) {
    const LinkKind& kind = link.link.kind;
    RETURN_IF_ERROR(
        Execute("INSERT INTO probed_links VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                {link.link.host, link.link.alike, int{kind.between_racks},
                 kind.send_bit_s, kind.receive_bit_s, kind.queue_bytes, kind.burst_bytes,
                 kind.congestion_control, absl::ToInt64Nanoseconds(link.latency),
                 link.out_bytes_s, link.in_bytes_s, link.idle}));
  }
  return absl::OkStatus();
}

absl::Status RunDatabase::BeginRun(const JobSpec& spec, absl::string_view mode,
                                   absl::string_view configuration, absl::Time started) {
  return Execute(
      "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL, ?, ?, ?)",
      {++run_, spec.arm().name(), SeedAsInteger(spec.experiment().training().seed()),
       spec.job(), mode, spec.workers(), spec.servers(), spec.steps(), configuration,
       absl::ToUnixNanos(started), int{InLockstep(spec)}, DescribeReduction(spec),
       OrNull(spec.has_restored(), spec.restored().step())});
}

absl::Status RunDatabase::AddPlan(const std::vector<PlannedBucket>& buckets) {
  for (size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    const auto& algorithm = buckets[bucket].algorithm;
    const std::string name = algorithm ? AlgorithmName(*algorithm) : "";
    RETURN_IF_ERROR(Execute(
        "INSERT INTO bucket_plan VALUES (?, ?, ?, ?)",
        {run_, static_cast<int64_t>(bucket), buckets[bucket].bytes,
         algorithm ? SqliteValue(absl::string_view(name)) : SqliteValue(nullptr)}));
  }
  return absl::OkStatus();
}

absl::Status RunDatabase::EndRun(absl::Time ended, const absl::Status& outcome) {
  RETURN_IF_ERROR(
      Execute("UPDATE runs SET ended_unix_ns = ?2, outcome = ?3 WHERE run = ?1",
              {run_, absl::ToUnixNanos(ended), Outcome(outcome)}));
  return WriteWaits(*connection_, run_);
}

absl::Status RunDatabase::AddProcess(const Hello& process, absl::Time joined) {
  return Execute(
      "INSERT INTO processes VALUES (?, ?, ?, ?, ?, ?, ?, NULL, NULL)",
      {run_, RoleName(process.member()), process.member().rank(), process.host(),
       process.process_id(), Hex(process.incarnation()), absl::ToUnixNanos(joined)});
}

absl::Status RunDatabase::EndProcess(const Hello& process, absl::Time left,
                                     const absl::Status& outcome) {
  return Execute(
      "UPDATE processes SET left_unix_ns = ?5, outcome = ?6 "
      "WHERE run = ?1 AND role = ?2 AND rank = ?3 AND incarnation = ?4",
      {run_, RoleName(process.member()), process.member().rank(),
       Hex(process.incarnation()), absl::ToUnixNanos(left), Outcome(outcome)});
}

absl::Status RunDatabase::AddRecords(const Member& from, const RecordBatch& batch) {
  for (const StepRecord& step : batch.steps()) RETURN_IF_ERROR(AddStep(step));
  for (const ContributionRecord& contribution : batch.contributions()) {
    RETURN_IF_ERROR(AddContribution(from, contribution));
  }
  for (const TrafficRecord& traffic : batch.traffic()) {
    RETURN_IF_ERROR(AddTraffic(traffic));
  }
  for (const EvaluationRecord& evaluation : batch.evaluations()) {
    RETURN_IF_ERROR(Execute(
        "INSERT INTO evaluations VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        {run_, evaluation.step(), evaluation.loss(), evaluation.accuracy(),
         Hex(evaluation.digest()), OrNull(evaluation.has_time_ns(), evaluation.time_ns()),
         OrNull(evaluation.has_version_min(), evaluation.version_min()),
         OrNull(evaluation.has_version_max(), evaluation.version_max())}));
  }
  for (const ClockRecord& clock : batch.clocks()) {
    RETURN_IF_ERROR(Execute(
        "INSERT INTO clocks VALUES (?, ?, ?, ?, ?)",
        {run_, clock.process(), clock.time_ns(), clock.offset_ns(), clock.error_ns()}));
  }
  for (const MemoryRecord& memory : batch.memory()) {
    RETURN_IF_ERROR(Execute("INSERT INTO memory VALUES (?, ?, ?, ?)",
                            {run_, memory.process(), memory.purpose(), memory.bytes()}));
  }
  return absl::OkStatus();
}

absl::Status RunDatabase::AddTensorDigests(const std::vector<TensorDigest>& digests) {
  for (const TensorDigest& digest : digests) {
    RETURN_IF_ERROR(
        Execute("INSERT INTO tensor_digests VALUES (?, ?, ?, ?, ?)",
                {run_, digest.step, digest.tensor, digest.rank, Hex(digest.digest)}));
  }
  return absl::OkStatus();
}

absl::Status RunDatabase::AddStep(const StepRecord& step) {
  RETURN_IF_ERROR(
      Execute("INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, "
              "?, ?, ?, ?, ?, ?, ?)",
              {run_,
               step.rank(),
               step.step(),
               step.samples(),
               step.loss(),
               step.start_ns(),
               step.total_ns(),
               step.data_ns(),
               step.forward_ns(),
               step.backward_ns(),
               step.exposed_ns(),
               step.optimizer_ns(),
               step.recording_ns(),
               step.payload_out(),
               step.payload_in(),
               step.peer_late_ns(),
               OrNull(step.has_waited_for(), step.waited_for()),
               step.version_skew(),
               step.skipped_buckets(),
               int{step.late()},
               step.operations(),
               OrNull(step.has_drift_max(), step.drift_max()),
               OrNull(step.has_drift_mean(), step.drift_mean())}));
  for (int bucket = 0; bucket < step.buckets_size(); ++bucket) {
    const BucketTimes& times = step.buckets(bucket);
    RETURN_IF_ERROR(Execute("INSERT INTO buckets VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                            {run_, step.rank(), step.step(), bucket, times.ready_ns(),
                             times.launched_ns(), times.done_ns(), times.working_ns()}));
  }
  if (!step.has_parameter_digest()) return absl::OkStatus();
  return Execute("INSERT INTO digests VALUES (?, ?, ?, ?)",
                 {run_, step.rank(), step.step(), Hex(step.parameter_digest())});
}

absl::Status RunDatabase::AddContribution(const Member& server,
                                          const ContributionRecord& contribution) {
  return Execute("INSERT INTO contributions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                 {run_, server.rank(), contribution.slot(), contribution.rank(),
                  contribution.step(), contribution.version_read(),
                  contribution.version(), Dropped(contribution.outcome()),
                  contribution.clock_lag(), contribution.time_ns()});
}

absl::Status RunDatabase::AddTraffic(const TrafficRecord& traffic) {
  const auto add = [&](absl::string_view kind, absl::string_view direction,
                       int64_t bytes) {
    return Execute("INSERT INTO links VALUES (?, ?, ?, ?, ?)",
                   {run_, traffic.process(), kind, direction, bytes});
  };
  const auto add_if_any = [&](absl::string_view kind, absl::string_view direction,
                              int64_t bytes) {
    return bytes == 0 ? absl::OkStatus() : add(kind, direction, bytes);
  };
  RETURN_IF_ERROR(add("payload", "out", traffic.payload_out()));
  RETURN_IF_ERROR(add("payload", "in", traffic.payload_in()));
  RETURN_IF_ERROR(add("initial", "out", traffic.initial_out()));
  RETURN_IF_ERROR(add("initial", "in", traffic.initial_in()));
  RETURN_IF_ERROR(add("snapshot", "out", traffic.snapshot_out()));
  RETURN_IF_ERROR(add("snapshot", "in", traffic.snapshot_in()));
  RETURN_IF_ERROR(add_if_any("local payload", "out", traffic.local_payload_out()));
  RETURN_IF_ERROR(add_if_any("local payload", "in", traffic.local_payload_in()));
  RETURN_IF_ERROR(add_if_any("local other", "out", traffic.local_other_out()));
  RETURN_IF_ERROR(add_if_any("local other", "in", traffic.local_other_in()));
  if (traffic.has_wire_out()) RETURN_IF_ERROR(add("wire", "out", traffic.wire_out()));
  if (traffic.has_wire_in()) RETURN_IF_ERROR(add("wire", "in", traffic.wire_in()));
  if (!traffic.has_awaiting_bytes_ns()) return absl::OkStatus();
  return Execute(
      "INSERT INTO link_costs VALUES (?, ?, ?, ?, ?)",
      {run_, traffic.process(), traffic.awaiting_bytes_ns(), traffic.awaiting_room_ns(),
       OrNull(traffic.has_retransmissions(), traffic.retransmissions())});
}

absl::Status RunDatabase::AddEvent(absl::Time time, Severity severity,
                                   absl::string_view process, absl::string_view text) {
  return Execute("INSERT INTO events VALUES (?, ?, ?, ?, ?)",
                 {run_, absl::ToUnixNanos(time), Name(severity),
                  process.empty() ? SqliteValue(nullptr) : SqliteValue(process), text});
}

absl::Status RunDatabase::SetRecordingTime(absl::string_view process,
                                           absl::string_view work,
                                           absl::Duration processor) {
  return Execute("INSERT OR REPLACE INTO recording VALUES (?, ?, ?, ?)",
                 {run_, process, work, absl::ToInt64Nanoseconds(processor)});
}

absl::Status RunDatabase::AddHostsReading(const HostsReading& reading) {
  const int64_t time = absl::ToUnixNanos(reading.time);
  for (const LinkReading& link : reading.links) {
    RETURN_IF_ERROR(
        Execute("INSERT INTO link_samples VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                {run_, link.host, link.direction(), time, link.bytes, link.packets,
                 link.dropped, link.backlog_bytes, link.interface_bytes,
                 link.interface_packets, OrNull(link.out, link.resent)}));
  }
  return Execute("INSERT INTO processor_samples VALUES (?, ?, ?, ?)",
                 {run_, time, absl::ToInt64Nanoseconds(reading.idle),
                  absl::ToInt64Nanoseconds(reading.processors)});
}

}  // namespace psring
