#include "ring/shared_memory_segment.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/ring_test_util.h"
#include "ring/shared_memory_test_util.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using Segment = std::shared_ptr<SharedMemorySegment>;

constexpr absl::Duration kLong = absl::Minutes(5);

std::vector<Segment> OpenAll(const SharedMemoryJob& job) {
  std::vector<Segment> segments(job.ranks);
  EXPECT_THAT(RunRanks(job.ranks,
                       [&](int rank) -> absl::Status {
                         ASSIGN_OR_RETURN(segments[rank], SharedMemorySegment::Open(
                                                              ForRank(job, rank), kLong));
                         return absl::OkStatus();
                       }),
              Each(IsOk()));
  return segments;
}

// A process that comes as one rank and waits for the others; killed when destroyed.
class WaitingProcess {
 public:
  explicit WaitingProcess(const SharedMemoryJob& job) : pid_(fork()) {
    if (pid_ == 0) {
      SharedMemorySegment::Open(job, kLong).IgnoreError();
      _exit(0);
    }
  }
  ~WaitingProcess() { Kill(); }

  pid_t pid() const { return pid_; }
  void Kill() {
    if (killed_) return;
    killed_ = true;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  const pid_t pid_;
  bool killed_ = false;
};

// Until the rank has come.
void AwaitLock(const std::string& name, int rank) {
  const FileDescriptor file(open(name.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(file.open());
  struct flock lock;
  do {
    lock = {};
    lock.l_type = F_WRLCK;
    lock.l_start = rank + 1;
    lock.l_len = 1;
    ASSERT_EQ(fcntl(file.get(), F_OFD_GETLK, &lock), 0);
  } while (lock.l_type == F_UNLCK);
}

TEST(SharedMemorySegmentTest, RanksSeeEachOthersValues) {
  const std::vector<Segment> segments = OpenAll(UniqueJob(3, 1000));
  std::vector<DeviceBuffer> buffers;
  for (int rank = 0; rank < 3; ++rank) {
    buffers.push_back(segments[rank]->buffer());
    const std::span<float> values = buffers[rank].span().host();
    ASSERT_EQ(values.size(), 1000u);
    EXPECT_THAT(values, Each(0.0f));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(values.data()) % 64, 0u);
    std::fill(values.begin(), values.end(), static_cast<float>(rank + 1));
  }
  for (int rank = 0; rank < 3; ++rank) {
    const auto slice = buffers[rank].span().Slice({.begin = 7, .count = 100}).host();
    const int64_t position = segments[rank]->PositionOf(slice);
    for (const Segment& other : segments) {
      EXPECT_THAT(std::span(other->At(position), 100), Each(rank + 1.0f));
    }
  }
}

TEST(SharedMemorySegmentTest, OnlyTheRanksOwnValuesHaveAPosition) {
  const std::vector<Segment> segments = OpenAll(UniqueJob(2, 1024));
  const DeviceBuffer buffer = segments[0]->buffer();
  const std::span<float> values = buffer.span().host();
  EXPECT_GE(segments[0]->PositionOf(values), 0);
  EXPECT_LT(segments[0]->PositionOf({values.data() - 1, 10}), 0);
  EXPECT_LT(segments[0]->PositionOf({values.data() + 1015, 10}), 0);
  const std::vector<float> elsewhere(10);
  EXPECT_LT(segments[0]->PositionOf(elsewhere), 0);
}

TEST(SharedMemorySegmentTest, TheBufferKeepsTheSegment) {
  std::vector<Segment> segments = OpenAll(UniqueJob(1, 10));
  const DeviceBuffer buffer = segments[0]->buffer();
  segments.clear();
  std::fill_n(buffer.span().data, 10, 1.0f);
}

TEST(SharedMemorySegmentTest, TheNameGoesWhenAllHaveCome) {
  const SharedMemoryJob job = UniqueJob(2, 10);
  const std::vector<Segment> segments = OpenAll(job);
  EXPECT_FALSE(Exists(NameOf(job)));
}

TEST(SharedMemorySegmentTest, TheMissingAreNamed) {
  const SharedMemoryJob job = UniqueJob(3, 10);
  const auto segment = SharedMemorySegment::Open(ForRank(job, 1), absl::Milliseconds(20));
  EXPECT_THAT(segment, StatusIs(absl::StatusCode::kDeadlineExceeded,
                                AllOf(HasSubstr("worker 0"), HasSubstr("worker 2"),
                                      testing::Not(HasSubstr("worker 1")))));
  EXPECT_EQ(ExitCodeOf(segment.status()), ExitCode::kRendezvousTimeout);
  EXPECT_FALSE(Exists(NameOf(job)));
}

TEST(SharedMemorySegmentTest, WhoDiffersIsToldBothSides) {
  const SharedMemoryJob job = UniqueJob(2, 10);
  absl::StatusOr<Segment> first = absl::UnknownError("");
  std::thread waiting([&] { first = SharedMemorySegment::Open(job, kLong); });
  AwaitExistence(NameOf(job));
  SharedMemoryJob other = ForRank(job, 1);
  other.count = 11;
  EXPECT_THAT(
      SharedMemorySegment::Open(other, kLong),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("2 ranks with 10 floats and fingerprint 0000000000000001"),
                     HasSubstr("2 ranks with 11 floats"))));
  other = ForRank(job, 1);
  other.fingerprint = 2;
  EXPECT_THAT(SharedMemorySegment::Open(other, kLong),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("fingerprint 0000000000000002")));
  other = ForRank(job, 2);
  other.ranks = 3;
  EXPECT_THAT(SharedMemorySegment::Open(other, kLong),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("3 ranks")));
  // A second of the same rank is refused too, and none of them did any harm.
  EXPECT_THAT(SharedMemorySegment::Open(job, kLong),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       HasSubstr(absl::StrCat("worker 0 (process ", getpid(), ")"))));
  EXPECT_THAT(SharedMemorySegment::Open(ForRank(job, 1), kLong), IsOk());
  waiting.join();
  EXPECT_THAT(first, IsOk());
}

TEST(SharedMemorySegmentTest, WhatDeadProcessesLeftBehindIsRemoved) {
  const SharedMemoryJob job = UniqueJob(3, 10);
  {
    WaitingProcess first(job);
    AwaitExistence(NameOf(job));
    WaitingProcess second(ForRank(job, 1));
    AwaitLock(NameOf(job), 1);
    first.Kill();
    second.Kill();
  }
  // By whoever comes next, to whichever job.
  for (const Segment& segment : OpenAll(UniqueJob(1, 1))) EXPECT_NE(segment, nullptr);
  EXPECT_FALSE(Exists(NameOf(job)));
  for (const Segment& segment : OpenAll(job)) EXPECT_NE(segment, nullptr);
  EXPECT_FALSE(Exists(NameOf(job)));
}

TEST(SharedMemorySegmentTest, ARankLostAmongThoseThatWaitIsNamed) {
  const SharedMemoryJob job = UniqueJob(3, 10);
  WaitingProcess first(job);
  AwaitExistence(NameOf(job));
  absl::StatusOr<Segment> second = absl::UnknownError("");
  std::thread waiting(
      [&] { second = SharedMemorySegment::Open(ForRank(job, 1), kLong); });
  AwaitLock(NameOf(job), 1);
  first.Kill();
  waiting.join();
  EXPECT_THAT(
      second,
      StatusIs(absl::StatusCode::kUnavailable,
               HasSubstr(absl::StrCat("worker 0 (process ", first.pid(), ") was lost"))));
  EXPECT_EQ(ExitCodeOf(second.status()), ExitCode::kPeerLost);
}

TEST(SharedMemorySegmentTest, ValuesThatDoNotFitAreAnError) {
  struct statvfs folder;
  ASSERT_EQ(statvfs("/dev/shm", &folder), 0);
  if (folder.f_blocks == 0) GTEST_SKIP() << "/dev/shm has no limit";
  const auto bytes = static_cast<int64_t>(folder.f_blocks * folder.f_frsize);
  EXPECT_THAT(
      SharedMemorySegment::Open(UniqueJob(1, bytes / 4 + 1), kLong),
      StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("bytes in /dev/shm: ")));
}

}  // namespace
}  // namespace psring
