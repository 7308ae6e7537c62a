#include "experiments/database_writer.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "experiments/sqlite.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class DatabaseWriterTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = absl::StrCat(testing::TempDir(), "/database_writer_XXXXXX");
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string Path() const { return absl::StrCat(folder_, "/run.db"); }

  // With one run, to which Add adds.
  std::unique_ptr<DatabaseWriter> MakeWriter() {
    auto database = RunDatabase::Create(Path());
    EXPECT_OK(database);
    auto writer = std::make_unique<DatabaseWriter>(*std::move(database));
    writer->Add([](RunDatabase& database) {
      JobSpec spec;
      spec.set_workers(1);
      spec.mutable_experiment()->mutable_training()->mutable_optimizer()->mutable_sgd();
      return database.BeginRun(spec, "mode", "configuration", absl::UnixEpoch());
    });
    return writer;
  }
  static void Add(DatabaseWriter& writer, const std::string& text) {
    writer.Add([text](RunDatabase& database) {
      return database.AddEvent(absl::UnixEpoch(), Severity::kInfo, "", text);
    });
  }

  // In the order in which they were written.
  std::vector<std::string> Texts() const {
    auto connection = SqliteConnection::OpenReadOnly(Path());
    EXPECT_OK(connection);
    auto statement = (*connection)->Prepare("SELECT text FROM events ORDER BY rowid");
    EXPECT_OK(statement);
    std::vector<std::string> texts;
    while (true) {
      const auto more = statement->Next();
      EXPECT_OK(more);
      if (!more.ok() || !*more) return texts;
      texts.push_back(statement->Text(0));
    }
  }

  std::string folder_;
};

TEST_F(DatabaseWriterTest, FlushReturnsWhenAllIsInTheFile) {
  const auto writer = MakeWriter();
  for (const char* text : {"a", "b", "c"}) Add(*writer, text);
  ASSERT_OK(writer->Flush());
  EXPECT_THAT(Texts(), ElementsAre("a", "b", "c"));
  EXPECT_GT(writer->processor_time(), absl::ZeroDuration());
  ASSERT_OK(writer->Flush());  // Nothing is waiting.
  Add(*writer, "d");
  ASSERT_OK(writer->Flush());
  EXPECT_THAT(Texts(), ElementsAre("a", "b", "c", "d"));
}

TEST_F(DatabaseWriterTest, WritesAreCommittedWithoutBeingAsked) {
  const auto writer = MakeWriter();
  Add(*writer, "a");
  while (Texts().empty()) std::this_thread::yield();
  EXPECT_THAT(Texts(), ElementsAre("a"));
}

TEST_F(DatabaseWriterTest, TheEndWritesWhatIsWaiting) {
  auto writer = MakeWriter();
  Add(*writer, "a");
  writer.reset();
  EXPECT_THAT(Texts(), ElementsAre("a"));
}

TEST_F(DatabaseWriterTest, WritesOfManyThreadsAllArrive) {
  constexpr int kThreads = 4;
  constexpr int kWrites = 200;
  const auto writer = MakeWriter();
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kWrites; ++i) Add(*writer, absl::StrCat(thread));
      EXPECT_OK(writer->Flush());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Texts().size(), kThreads * kWrites);
}

TEST_F(DatabaseWriterTest, TheFirstErrorStaysAndNothingFollowsIt) {
  const auto writer = MakeWriter();
  Add(*writer, "a");
  ASSERT_OK(writer->Flush());
  Add(*writer, "in the transaction that fails");
  writer->Add([](RunDatabase&) { return absl::ResourceExhaustedError("disk is full"); });
  const auto is_full =
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("disk is full"));
  EXPECT_THAT(writer->Flush(), is_full);
  Add(*writer, "b");
  EXPECT_THAT(writer->Flush(), is_full);
  EXPECT_THAT(writer->status(), is_full);
  EXPECT_THAT(Texts(), ElementsAre("a"));
}

// What had been committed when its process was killed is there; what had not is missing
// as a whole, and the file opens.
TEST_F(DatabaseWriterTest, AKilledWriterLeavesWhatItHasCommitted) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_NE(child, -1);
  if (child == 0) {
    const auto writer = MakeWriter();
    for (int i = 0; i < 1000; ++i) Add(*writer, "old");
    if (!writer->Flush().ok()) _exit(1);
    // The transaction that this begins never ends.
    writer->Add([&](RunDatabase& database) {
      for (int i = 0; i < 1000; ++i) {
        if (!database.AddEvent(absl::UnixEpoch(), Severity::kInfo, "", "new").ok()) {
          _exit(1);
        }
      }
      if (write(ready[1], "!", 1) != 1) _exit(1);
      while (true) pause();
      return absl::OkStatus();
    });
    (void)writer->Flush();
    _exit(1);
  }
  close(ready[1]);
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1) << "the child failed";
  close(ready[0]);
  kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));

  EXPECT_EQ(Texts(), std::vector<std::string>(1000, "old"));
  ASSERT_OK_AND_ASSIGN(const auto connection, SqliteConnection::Open(Path()));
  ASSERT_OK_AND_ASSIGN(SqliteStatement check, connection->Prepare("PRAGMA quick_check"));
  EXPECT_THAT(check.Next(), testing::Property(&absl::StatusOr<bool>::ok, true));
  EXPECT_EQ(check.Text(0), "ok");
}

}  // namespace
}  // namespace psring
