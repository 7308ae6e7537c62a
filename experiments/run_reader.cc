#include "experiments/run_reader.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "experiments/run_database.h"
#include "experiments/sqlite.h"

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

absl::StatusOr<int64_t> FindRun(SqliteConnection& connection, const std::string& name) {
  ASSIGN_OR_RETURN(SqliteStatement run,
                   connection.Prepare("SELECT run FROM runs WHERE name = ?"));
  RETURN_IF_ERROR(run.Bind({name}));
  ASSIGN_OR_RETURN(const bool found, run.Next());
  if (found) return run.Integer(0);
  return absl::NotFoundError(absl::StrCat(connection.path(), " has no run ", name));
}

double LossOf(const SqliteStatement& row, int column) {
  return row.IsNull(column) ? std::numeric_limits<double>::quiet_NaN() : row.Real(column);
}

absl::Status ReadSteps(SqliteConnection& connection, int64_t run, ArmRecords* records) {
  ASSIGN_OR_RETURN(
      SqliteStatement row,
      connection.Prepare(
          "SELECT rank, step, samples, loss, start_ns, total_ns, data_ns, forward_ns, "
          "backward_ns, exposed_ns, optimizer_ns, recording_ns, payload_out, payload_in, "
          "digest FROM steps LEFT JOIN digests USING (run, rank, step) "
          "WHERE run = ? ORDER BY rank, step"));
  RETURN_IF_ERROR(row.Bind({run}));
  while (true) {
    ASSIGN_OR_RETURN(const bool more, row.Next());
    if (!more) return absl::OkStatus();
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
    if (row.IsNull(14)) continue;
    uint64_t digest = 0;
    if (!absl::SimpleHexAtoi(row.Text(14), &digest)) {
      return absl::InternalError(absl::StrCat("cannot read ", connection.path(), ": \"",
                                              row.Text(14), "\" is no digest"));
    }
    step.set_parameter_digest(digest);
  }
}

absl::Status ReadTraffic(SqliteConnection& connection, int64_t run, ArmRecords* records) {
  ASSIGN_OR_RETURN(SqliteStatement row,
                   connection.Prepare("SELECT process, kind, direction, bytes FROM links "
                                      "WHERE run = ?"));
  RETURN_IF_ERROR(row.Bind({run}));
  while (true) {
    ASSIGN_OR_RETURN(const bool more, row.Next());
    if (!more) return absl::OkStatus();
    TrafficRecord& traffic = records->traffic[row.Text(0)];
    traffic.set_process(row.Text(0));
    const std::string kind = row.Text(1);
    const bool out = row.Text(2) == "out";
    const int64_t bytes = row.Integer(3);
    if (kind == "payload") {
      out ? traffic.set_payload_out(bytes) : traffic.set_payload_in(bytes);
    } else if (kind == "initial") {
      out ? traffic.set_initial_out(bytes) : traffic.set_initial_in(bytes);
    } else if (kind == "wire") {
      out ? traffic.set_wire_out(bytes) : traffic.set_wire_in(bytes);
    }
  }
}

absl::Status ReadEvaluations(SqliteConnection& connection, int64_t run,
                             ArmRecords* records) {
  ASSIGN_OR_RETURN(SqliteStatement row,
                   connection.Prepare("SELECT step, loss, accuracy FROM evaluations "
                                      "WHERE run = ? ORDER BY step"));
  RETURN_IF_ERROR(row.Bind({run}));
  while (true) {
    ASSIGN_OR_RETURN(const bool more, row.Next());
    if (!more) return absl::OkStatus();
    EvaluationRecord& evaluation = records->evaluations.emplace_back();
    evaluation.set_step(row.Integer(0));
    evaluation.set_loss(LossOf(row, 1));
    evaluation.set_accuracy(row.Real(2));
  }
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

}  // namespace

absl::StatusOr<ArmRecords> ReadArm(const std::string& path, const std::string& name) {
  ASSIGN_OR_RETURN(const std::unique_ptr<SqliteConnection> connection,
                   SqliteConnection::OpenReadOnly(path));
  RETURN_IF_ERROR(CheckVersion(*connection));
  // One transaction: all tables as of one moment.
  RETURN_IF_ERROR(connection->Execute("BEGIN"));
  ASSIGN_OR_RETURN(const int64_t run, FindRun(*connection, name));
  ArmRecords records;
  RETURN_IF_ERROR(ReadSteps(*connection, run, &records));
  RETURN_IF_ERROR(ReadTraffic(*connection, run, &records));
  RETURN_IF_ERROR(ReadEvaluations(*connection, run, &records));
  RETURN_IF_ERROR(ReadRecording(*connection, run, &records));
  return records;
}

}  // namespace psring
