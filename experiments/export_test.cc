// A run database as CSV files, read back.
#include "experiments/export.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/status_matchers.h"
#include "experiments/run_database_test_util.h"
#include "experiments/sqlite.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// NULL is none.
using Row = std::vector<std::optional<std::string>>;

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.is_open()) << path;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// As RFC 4180 has it, with LF.
std::vector<Row> ParseCsv(const std::string& text) {
  std::vector<Row> rows;
  size_t at = 0;
  while (at < text.size()) {
    Row& row = rows.emplace_back();
    while (true) {
      std::optional<std::string>& field = row.emplace_back();
      if (at < text.size() && text[at] == '"') {
        field = "";
        for (++at; at < text.size(); ++at) {
          if (text[at] == '"' && text[++at] != '"') break;
          field->push_back(text[at]);
        }
      } else {
        const size_t end = std::min(text.find_first_of(",\n", at), text.size());
        if (end > at) field = text.substr(at, end - at);
        at = end;
      }
      if (at >= text.size() || text[at++] == '\n') break;
    }
  }
  return rows;
}

class ExportTest : public RunDatabaseTest {
 protected:
  std::string Out() const { return folder_ + "/csv"; }
  // What is in the folder beside the database's own files.
  std::vector<std::string> Left() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      const std::string name = entry.path().filename();
      if (name.rfind("run.db", 0) != 0) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }
};

TEST_F(ExportTest, EveryTextComesBack) {
  ASSERT_OK(BeginRun("arm"));
  const std::vector<std::string> texts = {
      "plain",    "",        ",",        "\"",  "a \"quoted\", b", "two\nlines", "cr\rlf",
      "\r\n\"\"", " blank ", "\xc3\xbc", "NULL"};
  for (const std::string& text : texts) {
    ASSERT_OK(database_->AddEvent(kStarted, Severity::kInfo, "", text));
  }
  ASSERT_OK_AND_ASSIGN(const Exported exported, ExportCsv(folder_, Out()));
  EXPECT_EQ(exported.rows, 1 + static_cast<int64_t>(texts.size()));
  const std::string csv = Contents(Out() + "/events.csv");
  EXPECT_THAT(csv, HasSubstr(",\"cr\rlf\"\n"));
  EXPECT_THAT(csv, HasSubstr(",plain\n"));
  const std::vector<Row> rows = ParseCsv(csv);
  ASSERT_EQ(rows.size(), texts.size() + 1);
  EXPECT_THAT(rows[0], ElementsAre("run", "time_unix_ns", "severity", "process", "text"));
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_THAT(rows[i + 1], ElementsAre("1", "1000000000000", "info", std::nullopt,
                                         std::optional(texts[i])));
  }
}

TEST_F(ExportTest, NumbersComeBackAndNullIsEmpty) {
  ASSERT_OK(BeginRun("arm"));
  const std::vector<double> losses = {
      0.1, 1.0 / 3, 5e-324, 1e300, -2, std::numeric_limits<double>::infinity()};
  RecordBatch batch;
  for (size_t i = 0; i < losses.size(); ++i) {
    EvaluationRecord& evaluation = *batch.add_evaluations();
    evaluation.set_step(static_cast<int64_t>(i));
    evaluation.set_loss(losses[i]);
    evaluation.set_accuracy(0.5);
    evaluation.set_digest(~uint64_t{0});
  }
  batch.mutable_evaluations(0)->set_time_ns(std::numeric_limits<int64_t>::min());
  EvaluationRecord& none = *batch.add_evaluations();
  none.set_step(100);
  none.set_loss(std::numeric_limits<double>::quiet_NaN());
  ASSERT_OK(database_->AddRecords(MakeMember(WORKER, 0), batch));
  ASSERT_OK(ExportCsv(Path(), Out() + "/"));
  const std::vector<Row> rows = ParseCsv(Contents(Out() + "/evaluations.csv"));
  ASSERT_EQ(rows.size(), losses.size() + 2);
  for (size_t i = 0; i < losses.size(); ++i) {
    EXPECT_EQ(std::strtod(rows[i + 1][2]->c_str(), nullptr), losses[i])
        << *rows[i + 1][2];
    EXPECT_EQ(rows[i + 1][4], "ffffffffffffffff");
  }
  EXPECT_EQ(rows[1][5], "-9223372036854775808");
  EXPECT_EQ(rows[2][5], std::nullopt);
  EXPECT_EQ(rows.back()[2], std::nullopt);
}

// schema.sql and the files are all that it takes to have the tables again.
TEST_F(ExportTest, EveryTableIsThereWithItsColumns) {
  ASSERT_OK_AND_ASSIGN(const Exported exported, ExportCsv(folder_, Out()));
  EXPECT_EQ(exported.rows, 0);
  ASSERT_OK_AND_ASSIGN(const auto copy, SqliteConnection::Open(folder_ + "/again.db"));
  ASSERT_OK(copy->Execute(Contents(Out() + "/schema.sql")));
  const std::vector<std::string> tables =
      Rows("SELECT name FROM sqlite_master WHERE type = 'table'", 1);
  EXPECT_EQ(exported.tables, static_cast<int64_t>(tables.size()));
  for (const std::string& table : tables) {
    const std::vector<Row> rows =
        ParseCsv(Contents(absl::StrCat(Out(), "/", table, ".csv")));
    ASSERT_EQ(rows.size(), 1) << table;
    ASSERT_OK_AND_ASSIGN(SqliteStatement column,
                         copy->Prepare("SELECT name FROM pragma_table_info(?)"));
    ASSERT_OK(column.Bind({table}));
    for (const auto& name : rows[0]) {
      ASSERT_OK_AND_ASSIGN(const bool there, column.Next());
      ASSERT_TRUE(there);
      EXPECT_EQ(name, column.Text(0));
    }
    ASSERT_OK_AND_ASSIGN(const bool more, column.Next());
    EXPECT_FALSE(more) << table;
  }
}

TEST_F(ExportTest, TheFolderIsNewOrEmptyAndWholeOrNotThere) {
  // An empty one is taken, with what lies above a new one.
  fs::create_directory(Out());
  ASSERT_OK(ExportCsv(folder_, Out()));
  EXPECT_THAT(Left(), ElementsAre("csv"));
  EXPECT_TRUE(fs::exists(Out() + "/runs.csv"));
  EXPECT_EQ(fs::status(Out()).permissions() & fs::perms::group_read,
            fs::status(folder_ + "/csv/runs.csv").permissions() & fs::perms::group_read);
  ASSERT_OK(ExportCsv(folder_, folder_ + "/a/b"));
  EXPECT_TRUE(fs::exists(folder_ + "/a/b/runs.csv"));
  // A second time it is not empty.
  const auto fails = [&](const std::string& run, const std::string& out,
                         const std::string& text) {
    const absl::Status status = ExportCsv(run, out).status();
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);
  };
  fails(folder_, Out(), "/csv: it is not empty; allowed: a new or an empty folder");
  fails(folder_, Path(), "/run.db: it is not empty");
  fails(folder_, Path() + "/x", "/run.db/x: ");
  fails(folder_, "..", "cannot use the output folder ..: it has no name");
  fails(folder_ + "/none", folder_ + "/c",
        "/none: there is no such run folder or run.db");
  EXPECT_THAT(Left(), ElementsAre("a", "csv"));
}

// There is no file of this name.
TEST_F(ExportTest, WhatCannotBeWrittenLeavesNothing) {
  {
    ASSERT_OK_AND_ASSIGN(const auto connection, SqliteConnection::Open(Path()));
    ASSERT_OK(connection->Execute("CREATE TABLE \"a/b\" (c)"));
  }
  EXPECT_THAT(ExportCsv(folder_, Out()),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("/a/b.csv: No such file")));
  EXPECT_THAT(Left(), IsEmpty());
}

}  // namespace
}  // namespace psring
