#include "experiments/run_reader.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "experiments/communication.h"
#include "experiments/run_database.h"
#include "experiments/run_schema.h"
#include "experiments/sqlite.h"
#include "experiments/step_reader.h"

namespace psring {
namespace {

absl::Status CheckVersion(SqliteConnection& connection) {
  ASSIGN_OR_RETURN(SqliteStatement version, connection.Prepare("PRAGMA user_version"));
  RETURN_IF_ERROR(version.Next().status());
  if (version.Integer(0) == kRunSchemaVersion) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cannot read ", connection.path(),
                                          ": its schema has version ", version.Integer(0),
                                          ", this program reads ", kRunSchemaVersion));
}

absl::StatusOr<int64_t> FindRun(SqliteConnection& connection, const std::string& name,
                                uint64_t seed) {
  ASSIGN_OR_RETURN(
      SqliteStatement run,
      connection.Prepare("SELECT run FROM runs WHERE name = ? AND seed = ?"));
  RETURN_IF_ERROR(run.Bind({name, SeedAsInteger(seed)}));
  ASSIGN_OR_RETURN(const bool found, run.Next());
  if (found) return run.Integer(0);
  return absl::NotFoundError(
      absl::StrCat(connection.path(), " has no run ", name, " with seed ", seed));
}

// Calls `take` with each row of the query, whose one parameter is the run.
absl::Status ForEachRow(SqliteConnection& connection, int64_t run, absl::string_view sql,
                        absl::FunctionRef<absl::Status(const SqliteStatement&)> take) {
  ASSIGN_OR_RETURN(SqliteStatement row, connection.Prepare(sql));
  RETURN_IF_ERROR(row.Bind({run}));
  while (true) {
    ASSIGN_OR_RETURN(const bool more, row.Next());
    if (!more) return absl::OkStatus();
    RETURN_IF_ERROR(take(row));
  }
}

absl::StatusOr<uint64_t> DigestOf(const SqliteConnection& connection,
                                  const SqliteStatement& row, int column) {
  uint64_t digest = 0;
  if (absl::SimpleHexAtoi(row.Text(column), &digest)) return digest;
  return absl::InternalError(absl::StrCat("cannot read ", connection.path(), ": \"",
                                          row.Text(column), "\" is no digest"));
}

double LossOf(const SqliteStatement& row, int column) {
  return row.IsNull(column) ? std::numeric_limits<double>::quiet_NaN() : row.Real(column);
}

absl::Status ReadSteps(SqliteConnection& connection, int64_t run, ArmRecords* records) {
  return ForEachRow(
      connection, run,
      "SELECT rank, step, samples, loss, start_ns, total_ns, data_ns, forward_ns, "
      "backward_ns, exposed_ns, optimizer_ns, recording_ns, payload_out, payload_in, "
      "peer_late_ns, waited_for, version_skew, skipped_buckets, late, operations, "
      "digest, not_ready_ns, on_wire_ns, working_ns, drift_max, drift_mean FROM steps "
      "LEFT JOIN digests USING (run, rank, step) LEFT JOIN waits USING (run, rank, step) "
      "WHERE run = ? ORDER BY rank, step",
      [&](const SqliteStatement& row) -> absl::Status {
        const auto rank = static_cast<size_t>(row.Integer(0));
        if (records->steps.size() <= rank) records->steps.resize(rank + 1);
        StepRecord& step = records->steps[rank].emplace_back();
        step.set_rank(row.Integer(0));
        step.set_step(row.Integer(1));
        step.set_samples(row.Integer(2));
        step.set_loss(LossOf(row, 3));
        step.set_start_ns(row.Integer(4));
        step.set_total_ns(row.Integer(5));
        step.set_data_ns(row.Integer(6));
        step.set_forward_ns(row.Integer(7));
        step.set_backward_ns(row.Integer(8));
        step.set_exposed_ns(row.Integer(9));
        step.set_optimizer_ns(row.Integer(10));
        step.set_recording_ns(row.Integer(11));
        step.set_payload_out(row.Integer(12));
        step.set_payload_in(row.Integer(13));
        step.set_peer_late_ns(row.Integer(14));
        if (!row.IsNull(15)) step.set_waited_for(static_cast<int>(row.Integer(15)));
        step.set_version_skew(row.Integer(16));
        step.set_skipped_buckets(static_cast<int>(row.Integer(17)));
        step.set_late(row.Integer(18) != 0);
        step.set_operations(row.Integer(19));
        step.set_not_ready_ns(row.Integer(21));
        step.set_on_wire_ns(row.Integer(22));
        step.set_working_ns(row.Integer(23));
        if (!row.IsNull(24)) {
          step.set_drift_max(row.Real(24));
          step.set_drift_mean(row.Real(25));
        }
        if (row.IsNull(20)) return absl::OkStatus();
        ASSIGN_OR_RETURN(const uint64_t digest, DigestOf(connection, row, 20));
        step.set_parameter_digest(digest);
        return absl::OkStatus();
      });
}

// The sums over all contributions are SQLite's, which keeps what it sorts in files.
absl::Status ReadContributions(SqliteConnection& connection, int64_t run,
                               ArmRecords* records) {
  RETURN_IF_ERROR(ForEachRow(
      connection, run,
      "SELECT slot, rank, count(*), count(DISTINCT step), count(*) FILTER (WHERE dropped "
      "= 'late'), count(*) FILTER (WHERE dropped = 'stale'), max(clock_lag), count(*) "
      "FILTER (WHERE dropped IS NULL AND version <> step * workers + rank) "
      "FROM contributions JOIN runs USING (run) WHERE run = ? GROUP BY slot, rank",
      [&](const SqliteStatement& row) {
        records->slots[static_cast<int>(row.Integer(0))]
            .workers[static_cast<int>(row.Integer(1))] = {.made = row.Integer(2),
                                                          .steps = row.Integer(3),
                                                          .late = row.Integer(4),
                                                          .stale = row.Integer(5),
                                                          .clock_lag_max = row.Integer(6),
                                                          .out_of_turn = row.Integer(7)};
        return absl::OkStatus();
      }));
  RETURN_IF_ERROR(ForEachRow(
      connection, run,
      "SELECT slot, contributions, count(*), min(version), max(version) FROM "
      "(SELECT slot, version, count(*) AS contributions FROM contributions "
      "WHERE run = ? AND dropped IS NULL GROUP BY slot, version) "
      "GROUP BY slot, contributions",
      [&](const SqliteStatement& row) {
        records->slots[static_cast<int>(row.Integer(0))].updates[row.Integer(1)] = {
            .updates = row.Integer(2),
            .first_version = row.Integer(3),
            .last_version = row.Integer(4)};
        return absl::OkStatus();
      }));
  return ForEachRow(
      connection, run,
      "SELECT rank, version - version_read AS staleness, count(*), "
      "count(*) FILTER (WHERE version_read = 0) FROM contributions "
      "WHERE run = ? AND dropped IS NULL GROUP BY rank, staleness",
      [&](const SqliteStatement& row) {
        records->staleness[static_cast<int>(row.Integer(0))][row.Integer(1)] = {
            .count = row.Integer(2), .of_version_0 = row.Integer(3)};
        return absl::OkStatus();
      });
}

absl::Status ReadTraffic(SqliteConnection& connection, int64_t run, ArmRecords* records) {
  RETURN_IF_ERROR(
      ForEachRow(connection, run,
                 "SELECT process, awaiting_bytes_ns, awaiting_room_ns, retransmissions "
                 "FROM link_costs WHERE run = ?",
                 [&](const SqliteStatement& row) {
                   TrafficRecord& traffic = records->traffic[row.Text(0)];
                   traffic.set_awaiting_bytes_ns(row.Integer(1));
                   traffic.set_awaiting_room_ns(row.Integer(2));
                   if (!row.IsNull(3)) traffic.set_retransmissions(row.Integer(3));
                   return absl::OkStatus();
                 }));
  return ForEachRow(
      connection, run, "SELECT process, kind, direction, bytes FROM links WHERE run = ?",
      [&](const SqliteStatement& row) {
        TrafficRecord& traffic = records->traffic[row.Text(0)];
        traffic.set_process(row.Text(0));
        const std::string kind = row.Text(1);
        const bool out = row.Text(2) == "out";
        const int64_t bytes = row.Integer(3);
        if (kind == "payload") {
          out ? traffic.set_payload_out(bytes) : traffic.set_payload_in(bytes);
        } else if (kind == "initial") {
          out ? traffic.set_initial_out(bytes) : traffic.set_initial_in(bytes);
        } else if (kind == "snapshot") {
          out ? traffic.set_snapshot_out(bytes) : traffic.set_snapshot_in(bytes);
        } else if (kind == "local payload") {
          out ? traffic.set_local_payload_out(bytes)
              : traffic.set_local_payload_in(bytes);
        } else if (kind == "local other") {
          out ? traffic.set_local_other_out(bytes) : traffic.set_local_other_in(bytes);
        } else if (kind == "wire") {
          out ? traffic.set_wire_out(bytes) : traffic.set_wire_in(bytes);
        }
        return absl::OkStatus();
      });
}

absl::Status ReadMemory(SqliteConnection& connection, int64_t run, ArmRecords* records) {
  return ForEachRow(connection, run,
                    "SELECT process, purpose, bytes FROM memory WHERE run = ?",
                    [&](const SqliteStatement& row) {
                      records->memory[row.Text(0)][row.Text(1)] = row.Integer(2);
                      return absl::OkStatus();
                    });
}

absl::Status ReadTensorDigests(SqliteConnection& connection, int64_t run,
                               ArmRecords* records) {
  return ForEachRow(connection, run,
                    "SELECT rank, step, tensor, digest FROM tensor_digests WHERE run = ?",
                    [&](const SqliteStatement& row) -> absl::Status {
                      TensorDigest& digest = records->tensor_digests.emplace_back();
                      digest.rank = static_cast<int>(row.Integer(0));
                      digest.step = row.Integer(1);
                      digest.tensor = static_cast<int>(row.Integer(2));
                      ASSIGN_OR_RETURN(digest.digest, DigestOf(connection, row, 3));
                      return absl::OkStatus();
                    });
}

absl::Status ReadEvaluations(SqliteConnection& connection, int64_t run,
                             ArmRecords* records) {
  return ForEachRow(
      connection, run,
      "SELECT step, loss, accuracy, digest, time_ns, version_min, version_max "
      "FROM evaluations WHERE run = ? ORDER BY step",
      [&](const SqliteStatement& row) -> absl::Status {
        EvaluationRecord& evaluation = records->evaluations.emplace_back();
        evaluation.set_step(row.Integer(0));
        evaluation.set_loss(LossOf(row, 1));
        evaluation.set_accuracy(row.Real(2));
        ASSIGN_OR_RETURN(const uint64_t digest, DigestOf(connection, row, 3));
        evaluation.set_digest(digest);
        if (!row.IsNull(4)) evaluation.set_time_ns(row.Integer(4));
        if (!row.IsNull(5)) evaluation.set_version_min(row.Integer(5));
        if (!row.IsNull(6)) evaluation.set_version_max(row.Integer(6));
        return absl::OkStatus();
      });
}

absl::Status ReadRecording(SqliteConnection& connection, int64_t run,
                           ArmRecords* records) {
  ASSIGN_OR_RETURN(
      SqliteStatement row,
      connection.Prepare("SELECT SUM(processor_ns) FROM recording WHERE run = ?"));
  RETURN_IF_ERROR(row.Bind({run}));
  RETURN_IF_ERROR(row.Next().status());
  records->recording = absl::Nanoseconds(row.Integer(0));
  return absl::OkStatus();
}

absl::Status ReadLinks(SqliteConnection& connection, int64_t run, ArmRecords* records) {
  RETURN_IF_ERROR(ForEachRow(
      connection, run,
      "SELECT time_unix_ns, idle_ns, total_ns FROM processor_samples WHERE run = ? "
      "ORDER BY time_unix_ns",
      [&](const SqliteStatement& row) {
        HostsReading& reading = records->readings.emplace_back();
        reading.time = absl::FromUnixNanos(row.Integer(0));
        reading.idle = absl::Nanoseconds(row.Integer(1));
        reading.processors = absl::Nanoseconds(row.Integer(2));
        return absl::OkStatus();
      }));
  auto reading = records->readings.begin();
  return ForEachRow(
      connection, run,
      "SELECT time_unix_ns, host, direction = 'out', bytes, packets, dropped, "
      "backlog_bytes, interface_bytes, interface_packets, resent FROM link_samples "
      "WHERE run = ? ORDER BY time_unix_ns, host, direction",
      [&](const SqliteStatement& row) {
        while (absl::ToUnixNanos(reading->time) != row.Integer(0)) ++reading;
        reading->links.push_back({.host = row.Text(1),
                                  .out = row.Integer(2) != 0,
                                  .bytes = row.Integer(3),
                                  .packets = row.Integer(4),
                                  .dropped = row.Integer(5),
                                  .backlog_bytes = row.Integer(6),
                                  .interface_bytes = row.Integer(7),
                                  .interface_packets = row.Integer(8),
                                  .resent = row.Integer(9)});
        return absl::OkStatus();
      });
}

// Of the comparison, whatever the run.
absl::Status ReadProbedLinks(SqliteConnection& connection, ArmRecords* records) {
  ASSIGN_OR_RETURN(
      SqliteStatement row,
      connection.Prepare("SELECT host, alike, between_racks, send_bit_s, receive_bit_s, "
                         "queue_bytes, burst_bytes, congestion_control, latency_ns, "
                         "out_bytes_s, in_bytes_s, idle FROM probed_links"));
  while (true) {
    ASSIGN_OR_RETURN(const bool more, row.Next());
    if (!more) return absl::OkStatus();
    records->probed_links.push_back(
        {.link = {.kind = {.send_bit_s = row.Integer(3),
                           .receive_bit_s = row.Integer(4),
                           .queue_bytes = row.Integer(5),
                           .burst_bytes = row.Integer(6),
                           .congestion_control = row.Text(7),
                           .between_racks = row.Integer(2) != 0},
                  .host = row.Text(0),
                  .alike = static_cast<int>(row.Integer(1))},
         .latency = absl::Nanoseconds(row.Integer(8)),
         .out_bytes_s = row.Real(9),
         .in_bytes_s = row.Real(10),
         .idle = row.Real(11)});
  }
}

// It takes a look at every bucket of every step.
absl::Status ReadCommunication(SqliteConnection& connection, int64_t run,
                               ArmRecords* records) {
  ASSIGN_OR_RETURN(const RunFrame frame, ReadRunFrame(connection, run));
  CommunicationMeter meter(frame.lockstep, &frame.clocks);
  RETURN_IF_ERROR(ForEachStep(connection, run, frame.workers,
                              [&](std::span<const StepRecord* const> steps) {
                                meter.Add(steps);
                                return absl::OkStatus();
                              }));
  records->communication = meter.Figures();
  return absl::OkStatus();
}

// The time in which at least one bucket was on its way: workers' clocks start at the same
// moment.
absl::Status ReadMoving(SqliteConnection& connection, int64_t run, ArmRecords* records) {
  int64_t moving_ns = 0;
  int64_t until_ns = 0;  // All before it has been counted.
  RETURN_IF_ERROR(ForEachRow(
      connection, run,
      "SELECT launched_ns, done_ns FROM buckets WHERE run = ? ORDER BY launched_ns",
      [&](const SqliteStatement& row) {
        const int64_t begin_ns = std::max(until_ns, row.Integer(0));
        const int64_t end_ns = std::max(begin_ns, row.Integer(1));
        moving_ns += end_ns - begin_ns;
        until_ns = end_ns;
        return absl::OkStatus();
      }));
  records->moving = absl::Nanoseconds(moving_ns);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ArmRecords> ReadArm(const std::string& path, const std::string& name,
                                   uint64_t seed) {
  ASSIGN_OR_RETURN(const std::unique_ptr<SqliteConnection> connection,
                   SqliteConnection::OpenReadOnly(path));
  RETURN_IF_ERROR(CheckVersion(*connection));
  // One transaction: all tables as of one moment.
  RETURN_IF_ERROR(connection->Execute("BEGIN"));
  ASSIGN_OR_RETURN(const int64_t run, FindRun(*connection, name, seed));
  ArmRecords records;
  RETURN_IF_ERROR(ReadSteps(*connection, run, &records));
  RETURN_IF_ERROR(ReadContributions(*connection, run, &records));
  RETURN_IF_ERROR(ReadTraffic(*connection, run, &records));
  RETURN_IF_ERROR(ReadMemory(*connection, run, &records));
  RETURN_IF_ERROR(ReadTensorDigests(*connection, run, &records));
  RETURN_IF_ERROR(ReadEvaluations(*connection, run, &records));
  RETURN_IF_ERROR(ReadRecording(*connection, run, &records));
  RETURN_IF_ERROR(ReadLinks(*connection, run, &records));
  RETURN_IF_ERROR(ReadProbedLinks(*connection, &records));
  RETURN_IF_ERROR(ReadCommunication(*connection, run, &records));
  if (!records.readings.empty()) {
    RETURN_IF_ERROR(ReadMoving(*connection, run, &records));
  }
  return records;
}

}  // namespace psring
