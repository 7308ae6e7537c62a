// A run database in a folder of its own, and what tests write into it.
#ifndef PSRING_EXPERIMENTS_RUN_DATABASE_TEST_UTIL_H_
#define PSRING_EXPERIMENTS_RUN_DATABASE_TEST_UTIL_H_

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/status_matchers.h"
#include "experiments/run_database.h"
#include "experiments/sqlite.h"
#include "gtest/gtest.h"
#include "proto/coordinator.pb.h"
#include "proto/record.pb.h"

namespace psring {

// SQLite's integers have a sign, and seeds have none.
inline constexpr uint64_t kSeed = std::numeric_limits<uint64_t>::max();
inline constexpr absl::Time kStarted = absl::FromUnixSeconds(1'000);
inline constexpr absl::Time kEnded = absl::FromUnixSeconds(2'000);

inline JobSpec MakeSpec(const std::string& name) {
  JobSpec spec;
  spec.set_job(absl::StrCat("test/", name));
  spec.mutable_arm()->set_name(name);
  spec.set_workers(2);
  spec.set_servers(1);
  spec.set_steps(3);
  Training& training = *spec.mutable_experiment()->mutable_training();
  training.set_seed(kSeed);
  training.set_global_batch(8);
  training.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.5f);
  return spec;
}

inline Member MakeMember(Role role, int rank) {
  Member member;
  member.set_role(role);
  member.set_rank(rank);
  return member;
}

inline Hello MakeHello(Role role, int rank) {
  Hello hello;
  *hello.mutable_member() = MakeMember(role, rank);
  hello.set_host("host");
  hello.set_process_id(17);
  hello.set_incarnation(0xfedcba9876543210u);
  return hello;
}

// Every field has a value of its own.
inline StepRecord MakeStep(int rank, int64_t step, int buckets) {
  StepRecord record;
  int64_t value = 1'000'000 * (rank + 1) + 1'000 * step;
  record.set_rank(rank);
  record.set_step(step);
  record.set_samples(++value);
  record.set_loss(1.0 / static_cast<double>(++value));
  record.set_start_ns(++value);
  record.set_total_ns(++value);
  record.set_data_ns(++value);
  record.set_forward_ns(++value);
  record.set_backward_ns(++value);
  record.set_exposed_ns(++value);
  record.set_optimizer_ns(++value);
  record.set_recording_ns(++value);
  record.set_payload_out(++value);
  record.set_payload_in(++value);
  record.set_peer_late_ns(++value);
  if (step % 2 == 0) record.set_waited_for(static_cast<int32_t>(++value));
  record.set_version_skew(++value);
  record.set_skipped_buckets(static_cast<int32_t>(++value));
  record.set_late(step % 2 == 0);
  // The highest bit, too: SQLite's integers have a sign.
  if (step % 2 == 1) record.set_parameter_digest(~static_cast<uint64_t>(++value));
  for (int bucket = 0; bucket < buckets; ++bucket) {
    BucketTimes& times = *record.add_buckets();
    times.set_ready_ns(++value);
    times.set_launched_ns(++value);
    times.set_done_ns(++value);
    times.set_working_ns(++value);
  }
  record.set_operations(++value);
  if (step % 2 == 0) {
    record.set_drift_max(1.0 / static_cast<double>(++value));
    record.set_drift_mean(1.0 / static_cast<double>(++value));
  }
  return record;
}

class RunDatabaseTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = absl::StrCat(testing::TempDir(), "/run_database_XXXXXX");
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    ASSERT_OK_AND_ASSIGN(database_, RunDatabase::Create(Path()));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path() const { return absl::StrCat(folder_, "/run.db"); }

  // Rows as texts, "a|b|c", as they are while the writer still has the file open.
  std::vector<std::string> Rows(const std::string& sql, int columns) {
    auto connection = SqliteConnection::OpenReadOnly(Path());
    EXPECT_OK(connection);
    auto statement = (*connection)->Prepare(sql);
    EXPECT_OK(statement);
    std::vector<std::string> rows;
    while (true) {
      const auto more = statement->Next();
      EXPECT_OK(more);
      if (!more.ok() || !*more) return rows;
      std::vector<std::string> cells;
      for (int column = 0; column < columns; ++column) {
        cells.push_back(statement->IsNull(column) ? "NULL" : statement->Text(column));
      }
      rows.push_back(absl::StrJoin(cells, "|"));
    }
  }

  absl::Status BeginRun(const std::string& name) {
    return database_->BeginRun(MakeSpec(name), "some mode", "name: \"x\"", kStarted);
  }

  std::string folder_;
  std::unique_ptr<RunDatabase> database_;
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_RUN_DATABASE_TEST_UTIL_H_
