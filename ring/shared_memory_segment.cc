#include "ring/shared_memory_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/fingerprint.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "ring/futex.h"

// How ranks find each other.
//
// A segment is made complete, with its creator in it, as a file without a name, and then
// given its name; the file system lets only one rank do so. Hence whoever finds a name
// finds a segment that can be used, and there is no state in between.
//
// A name leads to a dead segment where ranks were lost before all had come. Whoever comes
// to it takes the name away and tries again, and whoever opens any segment takes away
// those names of the same user's whose ranks are all gone. Only who holds the lock on a
// segment's name may take it away, after a look whether it still leads there: otherwise a
// slow rank might take the name of the segment that a fast one has made meanwhile.

namespace psring {
namespace {

constexpr char kFolder[] = "/dev/shm";
// Between looks at whether those awaited still live.
constexpr absl::Duration kLivenessInterval = absl::Milliseconds(100);

// Bytes of the file that are locked: that of the name, then one per rank. They stand for
// themselves, whatever the file holds there.
constexpr int64_t kNameLock = 0;
constexpr int64_t LockOf(int rank) { return rank + 1; }

constexpr int64_t kToTheEnd = 0;  // A count of bytes, to fcntl.

struct flock LockAt(int64_t byte, int64_t bytes = 1) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = byte;
  lock.l_len = bytes;
  return lock;
}

// Locks belong to the open file, so that ranks may be threads of one process.
bool TryLock(const FileDescriptor& file, int64_t byte) {
  struct flock lock = LockAt(byte);
  return fcntl(file.get(), F_OFD_SETLK, &lock) == 0;
}

// Whether any of the bytes is.
bool IsLockedByAnother(const FileDescriptor& file, int64_t byte, int64_t bytes = 1) {
  struct flock lock = LockAt(byte, bytes);
  PCHECK(fcntl(file.get(), F_OFD_GETLK, &lock) == 0);
  return lock.l_type != F_UNLCK;
}

absl::Status SystemError(absl::string_view what) {
  return absl::UnavailableError(
      absl::StrCat("shared memory: ", what, ": ", std::strerror(errno)));
}

// How the names of all of this user's segments begin.
std::string NamesBegin() { return absl::StrCat("psring-", getuid(), "-"); }

std::string PathOf(const SharedMemoryJob& job) {
  return absl::StrCat(kFolder, "/", NamesBegin(),
                      absl::Hex(FingerprintOf(job.job), absl::kZeroPad16));
}

// Takes the name away if it leads to this file.
void RemoveName(const std::string& path, const FileDescriptor& file) {
  if (!TryLock(file, kNameLock)) return;  // Another rank is just doing so.
  struct stat named, own;
  if (stat(path.c_str(), &named) == 0 && fstat(file.get(), &own) == 0 &&
      named.st_dev == own.st_dev && named.st_ino == own.st_ino) {
    unlink(path.c_str());
  }
  struct flock lock = LockAt(kNameLock);
  lock.l_type = F_UNLCK;
  fcntl(file.get(), F_OFD_SETLK, &lock);
}

// A segment has its creator's lock before it has a name, so one that nobody holds any
// lock of is dead. What cannot be looked at is left alone.
void RemoveDeadNames() {
  std::error_code error;
  for (std::filesystem::directory_iterator it(kFolder, error), end; !error && it != end;
       it.increment(error)) {
    if (!absl::StartsWith(it->path().filename().string(), NamesBegin())) continue;
    const std::string path = it->path().string();
    const FileDescriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (file.open() && !IsLockedByAnother(file, LockOf(0), kToTheEnd)) {
      RemoveName(path, file);
    }
  }
}

std::string Describe(const SharedMemoryPrefix& prefix) {
  return absl::StrCat("a job of ", prefix.ranks, " ranks with ", prefix.count,
                      " floats and fingerprint ",
                      absl::Hex(prefix.job_fingerprint, absl::kZeroPad16));
}

SharedMemoryPrefix PrefixOf(const SharedMemoryJob& job) {
  return {.job_fingerprint = job.fingerprint, .count = job.count, .ranks = job.ranks};
}

absl::StatusOr<std::byte*> Map(const FileDescriptor& file, int64_t bytes) {
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return SystemError(absl::StrCat("mapping ", bytes, " bytes"));
  return static_cast<std::byte*>(memory);
}

absl::Status Reserve(const FileDescriptor& file, int64_t begin, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  const int error = posix_fallocate(file.get(), begin, bytes);
  if (error == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("shared memory: ", bytes, " bytes in ",
                                                   kFolder, ": ", std::strerror(error)));
}

// Whether a rank has come and will not take part.
bool IsDead(const FileDescriptor& file, const SharedMemoryMember& member, int rank) {
  return member.state.load() != MemberState::kAbsent &&
         !IsLockedByAnother(file, LockOf(rank));
}

}  // namespace

absl::StatusOr<std::shared_ptr<SharedMemorySegment>> SharedMemorySegment::Open(
    const SharedMemoryJob& job, absl::Duration timeout) {
  CHECK(0 <= job.rank && job.rank < job.ranks && job.count >= 0);
  const auto deadline = SteadyDeadline(timeout);
  const std::string path = PathOf(job);
  RemoveDeadNames();
  std::shared_ptr<SharedMemorySegment> segment;
  while (segment == nullptr) {
    ASSIGN_OR_RETURN(segment, Join(job, path));
    if (segment == nullptr) {
      ASSIGN_OR_RETURN(segment, Create(job, path));
    }
    if (segment == nullptr && std::chrono::steady_clock::now() > deadline) {
      return RendezvousTimeoutError(absl::StrCat(path, " does not come to rest"));
    }
  }
  absl::Status status = segment->AwaitAll(deadline);
  RemoveName(path, segment->file_);
  if (status.ok()) status = segment->ReserveValues();
  if (!status.ok()) {
    segment->Fail(status);
    return status;
  }
  return segment;
}

absl::StatusOr<std::shared_ptr<SharedMemorySegment>> SharedMemorySegment::Create(
    const SharedMemoryJob& job, const std::string& path) {
  FileDescriptor file(open(kFolder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file.open()) return SystemError(absl::StrCat("a file in ", kFolder));
  const SharedMemoryLayout layout(job.ranks, job.count);
  if (ftruncate(file.get(), layout.total_bytes()) != 0) {
    return SystemError(absl::StrCat(layout.total_bytes(), " bytes"));
  }
  // The values' memory is reserved once nothing can be left behind any more.
  RETURN_IF_ERROR(Reserve(file, 0, layout.control_bytes()));
  ASSIGN_OR_RETURN(std::byte* const memory, Map(file, layout.total_bytes()));
  const std::string nameless = absl::StrCat("/proc/self/fd/", file.get());
  new (memory) SharedMemoryHead{.prefix = PrefixOf(job)};
  for (int rank = 0; rank < job.ranks; ++rank) {
    new (memory + layout.member(rank)) SharedMemoryMember;
  }
  std::shared_ptr<SharedMemorySegment> segment(
      new SharedMemorySegment(job, std::move(file), memory));
  CHECK(segment->Enter());
  if (linkat(AT_FDCWD, nameless.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0)
    return segment;
  if (errno == EEXIST) return nullptr;
  return SystemError(absl::StrCat("naming ", path));
}

absl::StatusOr<std::shared_ptr<SharedMemorySegment>> SharedMemorySegment::Join(
    const SharedMemoryJob& job, const std::string& path) {
  FileDescriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!file.open() && errno == ENOENT) return nullptr;
  if (!file.open()) return SystemError(path);
  const SharedMemoryPrefix ours = PrefixOf(job);
  SharedMemoryPrefix theirs;
  if (pread(file.get(), &theirs, sizeof(theirs), 0) != sizeof(theirs) ||
      theirs.magic != ours.magic) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is no job's memory"));
  }
  const SharedMemoryLayout layout(theirs.ranks, theirs.count);
  ASSIGN_OR_RETURN(std::byte* const memory, Map(file, layout.total_bytes()));
  bool dead = false;
  for (int rank = 0; rank < theirs.ranks; ++rank) {
    dead |= IsDead(
        file, *reinterpret_cast<SharedMemoryMember*>(memory + layout.member(rank)), rank);
  }
  if (dead || theirs != ours) {
    munmap(memory, layout.total_bytes());
    if (dead) {
      RemoveName(path, file);
      return nullptr;
    }
    return absl::FailedPreconditionError(
        absl::StrCat("shared memory of job '", job.job, "': those who are there are ",
                     Describe(theirs), ", and this rank is of ", Describe(ours)));
  }
  std::shared_ptr<SharedMemorySegment> segment(
      new SharedMemorySegment(job, std::move(file), memory));
  if (segment->Enter()) return segment;
  return absl::AlreadyExistsError(absl::StrCat("shared memory of job '", job.job,
                                               "': ", segment->NameOf(job.rank),
                                               " is there already"));
}

SharedMemorySegment::SharedMemorySegment(const SharedMemoryJob& job, FileDescriptor file,
                                         std::byte* memory)
    : job_(job), layout_(job.ranks, job.count), file_(std::move(file)), memory_(memory) {}

SharedMemorySegment::~SharedMemorySegment() {
  Leave();
  munmap(memory_, layout_.total_bytes());
}

bool SharedMemorySegment::Enter() {
  if (!TryLock(file_, LockOf(job_.rank))) return false;
  entered_ = true;
  SharedMemoryMember& self = member(job_.rank);
  self.process = getpid();
  self.state.store(MemberState::kPresent);
  head().arrivals.fetch_add(1);
  FutexWakeAll(head().arrivals);
  return true;
}

absl::Status SharedMemorySegment::AwaitAll(
    std::chrono::steady_clock::time_point deadline) const {
  for (;;) {
    const uint32_t arrivals = head().arrivals.load();
    if (static_cast<int>(arrivals) == job_.ranks) return absl::OkStatus();
    std::string missing;
    for (int rank = 0; rank < job_.ranks; ++rank) {
      if (rank == job_.rank) continue;
      if (member(rank).state.load() == MemberState::kAbsent) {
        absl::StrAppend(&missing, missing.empty() ? "" : ", ", NameOf(rank));
      } else if (IsDead(file_, member(rank), rank) &&
                 head().arrivals.load() == arrivals) {
        return PeerLostError(
            absl::StrCat(NameOf(rank), " was lost before all workers had come"));
      }
    }
    const auto left = deadline - std::chrono::steady_clock::now();
    if (left.count() <= 0) {
      return RendezvousTimeoutError(
          absl::StrCat("no shared memory with ", missing, ", which did not come"));
    }
    FutexWait(head().arrivals, arrivals,
              std::min(absl::FromChrono(left), kLivenessInterval));
  }
}

absl::Status SharedMemorySegment::ReserveValues() {
  return Reserve(file_, layout_.values(job_.rank), layout_.values_bytes());
}

DeviceBuffer SharedMemorySegment::buffer() {
  return DeviceBuffer({.data = At(layout_.values(job_.rank)), .count = job_.count},
                      [self = shared_from_this()] {});
}

SharedMemoryHead& SharedMemorySegment::head() const {
  return *reinterpret_cast<SharedMemoryHead*>(memory_);
}

SharedMemoryMember& SharedMemorySegment::member(int rank) const {
  return *reinterpret_cast<SharedMemoryMember*>(memory_ + layout_.member(rank));
}

std::span<float> SharedMemorySegment::slot(int rank, int which) const {
  return {At(layout_.slot(rank, which)), static_cast<size_t>(kSlotCount)};
}

int64_t SharedMemorySegment::PositionOf(std::span<const float> values) const {
  const auto begin = reinterpret_cast<uintptr_t>(values.data());
  const auto own = reinterpret_cast<uintptr_t>(At(layout_.values(job_.rank)));
  const bool inside =
      own <= begin && begin + values.size_bytes() <= own + layout_.values_bytes();
  return inside ? layout_.values(job_.rank) + static_cast<int64_t>(begin - own) : -1;
}

float* SharedMemorySegment::At(int64_t position) const {
  return reinterpret_cast<float*>(memory_ + position);
}

bool SharedMemorySegment::IsLost(int rank) const {
  if (IsLockedByAnother(file_, LockOf(rank))) return false;
  // Looked at last: who leaves says so before it lets go of its lock.
  return member(rank).state.load() == MemberState::kPresent;
}

std::string SharedMemorySegment::NameOf(int rank) const {
  const SharedMemoryMember& named = member(rank);
  return named.state.load() == MemberState::kAbsent
             ? absl::StrCat("worker ", rank)
             : absl::StrCat("worker ", rank, " (process ", named.process, ")");
}

void SharedMemorySegment::Fail(const absl::Status& status) {
  const absl::Status reason =
      absl::IsCancelled(status)
          ? PeerLostError(absl::StrCat("worker ", job_.rank,
                                       " gave up: ", std::string(status.message())))
          : status;
  MutexLock lock(&state_mutex_);
  SharedMemoryMember& self = member(job_.rank);
  if (self.state.load() != MemberState::kPresent) return;
  self.failure_code = static_cast<int32_t>(reason.code());
  self.failure_exit_code = static_cast<int32_t>(ExitCodeOf(reason));
  const size_t length =
      std::min(reason.message().size(), self.failure_message.size() - 1);
  std::memcpy(self.failure_message.data(), reason.message().data(), length);
  self.failure_message[length] = '\0';
  self.state.store(MemberState::kFailed);
}

absl::Status SharedMemorySegment::FailureOf(int rank) const {
  const SharedMemoryMember& failed = member(rank);
  return WithExitCode(absl::Status(static_cast<absl::StatusCode>(failed.failure_code),
                                   failed.failure_message.data()),
                      static_cast<ExitCode>(failed.failure_exit_code));
}

void SharedMemorySegment::Leave() {
  MutexLock lock(&state_mutex_);
  std::atomic<MemberState>& state = member(job_.rank).state;
  if (entered_ && state.load() == MemberState::kPresent) state.store(MemberState::kLeft);
}

}  // namespace psring
