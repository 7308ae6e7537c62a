// Ranks as processes, some of which are killed or frozen.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "common/tcp_socket.h"
#include "common/time_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/shared_memory_collectives.h"
#include "ring/shared_memory_test_util.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kCount = 10'007;
// What stands between a rank's first sum, which it announces, and its last words.
constexpr char kUnderWay = '!';

absl::Status SumAndCheck(SharedMemoryCollectives& collectives, int64_t step,
                         const DeviceBuffer& buffer, int rank, int ranks) {
  const std::vector<float> terms = Terms(rank, kCount);
  std::copy(terms.begin(), terms.end(), buffer.span().data);
  RETURN_IF_ERROR(collectives.AllReduce(TagOf(step), buffer.span()));
  if (Bits(buffer.span().host()) != Bits(Fold(RingOrder(ranks), kCount))) {
    return absl::DataLossError(absl::StrCat("a wrong sum at step ", step));
  }
  return absl::OkStatus();
}

// One rank in a process of its own. It sums until something goes wrong or all steps are
// done, and then tells its exit code and message.
class RankProcess {
 public:
  RankProcess(const SharedMemoryJob& job, SharedMemoryOptions options, int64_t steps) {
    std::array<int, 2> ends;
    EXPECT_EQ(pipe(ends.data()), 0);
    pid_ = fork();
    if (pid_ == 0) {
      const absl::Status status = Run(job, options, steps, ends[1]);
      const std::string words = absl::StrCat(static_cast<int>(ExitCodeOf(status)), " ",
                                             std::string(status.message()));
      _exit(write(ends[1], words.data(), words.size()) < 0);
    }
    output_ = FileDescriptor(ends[0]);
    close(ends[1]);
  }
  ~RankProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  void Signal(int signal) const { kill(pid_, signal); }

  void AwaitUnderWay() {
    char byte = 0;
    EXPECT_EQ(read(output_.get(), &byte, 1), 1);
    EXPECT_EQ(byte, kUnderWay);
  }
  // Blocks until it has ended.
  std::string LastWords() {
    std::string words;
    std::array<char, 4096> buffer;
    for (ssize_t count;
         (count = read(output_.get(), buffer.data(), buffer.size())) > 0;) {
      words.append(buffer.data(), count);
    }
    return words;
  }

 private:
  static absl::Status Run(const SharedMemoryJob& job, SharedMemoryOptions options,
                          int64_t steps, int output) {
    ASSIGN_OR_RETURN(auto segment, SharedMemorySegment::Open(job, absl::Minutes(5)));
    const DeviceBuffer buffer = segment->buffer();
    SharedMemoryCollectives collectives(segment, options);
    for (int64_t step = 0; step < steps; ++step) {
      RETURN_IF_ERROR(SumAndCheck(collectives, step, buffer, job.rank, job.ranks));
      if (step == 0 && write(output, &kUnderWay, 1) != 1) {
        return absl::InternalError("nobody listens");
      }
    }
    return absl::OkStatus();
  }

  pid_t pid_;
  FileDescriptor output_;
};

std::vector<std::unique_ptr<RankProcess>> StartRanks(const SharedMemoryJob& job,
                                                     SharedMemoryOptions options,
                                                     int64_t steps) {
  std::vector<std::unique_ptr<RankProcess>> ranks;
  for (int rank = 0; rank < job.ranks; ++rank) {
    ranks.push_back(std::make_unique<RankProcess>(ForRank(job, rank), options, steps));
  }
  for (const auto& rank : ranks) rank->AwaitUnderWay();
  return ranks;
}

constexpr int64_t kForever = int64_t{1} << 60;

TEST(SharedMemoryProcessTest, SumsAreRightBetweenProcesses) {
  for (const int ranks : {2, 3, 5}) {
    const auto processes =
        StartRanks(UniqueJob(ranks, kCount), {.order = RingOrder(ranks)}, /*steps=*/20);
    for (const auto& process : processes) EXPECT_EQ(process->LastWords(), "0 ");
  }
}

TEST(SharedMemoryProcessTest, AKilledRankIsNamedOnEveryOther) {
  constexpr int kKilled = 2;
  for (const SharedMemoryWait wait :
       {SharedMemoryWait::kSleep, SharedMemoryWait::kSpin}) {
    const SharedMemoryJob job = UniqueJob(4, kCount);
    const auto processes =
        StartRanks(job, {.order = RingOrder(4), .wait = wait}, kForever);
    const RealTime since;
    processes[kKilled]->Signal(SIGKILL);
    for (int rank = 0; rank < job.ranks; ++rank) {
      if (rank == kKilled) continue;
      EXPECT_THAT(
          processes[rank]->LastWords(),
          AllOf(testing::StartsWith("5 sum of bucket 3"),
                HasSubstr(absl::StrCat("worker 2 (process ", processes[kKilled]->pid(),
                                       ") was lost: its process has ended"))));
    }
    EXPECT_LT(since.Elapsed(), absl::Seconds(5));
    EXPECT_FALSE(Exists(NameOf(job)));
  }
}

TEST(SharedMemoryProcessTest, AFrozenRankIsNamedOnEveryOther) {
  const SharedMemoryJob job = UniqueJob(3, kCount);
  const auto processes = StartRanks(
      job, {.order = RingOrder(3), .stall_timeout = absl::Seconds(1)}, kForever);
  processes[1]->Signal(SIGSTOP);
  for (const int rank : {0, 2}) {
    EXPECT_THAT(
        processes[rank]->LastWords(),
        AllOf(testing::StartsWith("5 sum of bucket 3"), HasSubstr("worker 1 (process "),
              HasSubstr("did not come within 1s")));
  }
  // Thawed, it learns what became of the others.
  processes[1]->Signal(SIGCONT);
  EXPECT_THAT(processes[1]->LastWords(), AllOf(testing::StartsWith("5 sum of bucket 3"),
                                               HasSubstr("worker 1 (process "),
                                               HasSubstr("did not come within 1s")));
}

TEST(SharedMemoryProcessTest, WhoHasDoneAllMayEnd) {
  const auto processes =
      StartRanks(UniqueJob(3, kCount), {.order = RingOrder(3)}, /*steps=*/1);
  for (const auto& process : processes) EXPECT_EQ(process->LastWords(), "0 ");
}

}  // namespace
}  // namespace psring
