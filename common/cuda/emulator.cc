#include "common/cuda/emulator.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/cuda/fiber.h"
#include "glog/logging.h"

namespace psring {

// All blocks of a call; the same fibers serve one after the other.
class EmulatedBlocks {
  using Meeting = EmulatedThread::Meeting;

 public:
  EmulatedBlocks(int64_t blocks, int threads, ThreadOrder order,
                 absl::FunctionRef<void(EmulatedThread&)> body)
      : blocks_(blocks), order_(order), in_turn_(threads), stacks_(threads) {
    std::iota(in_turn_.begin(), in_turn_.end(), 0);
    for (int t = 0; t < threads; ++t) {
      threads_.push_back(std::unique_ptr<EmulatedThread>(new EmulatedThread(this, t)));
      EmulatedThread& thread = *threads_.back();
      fibers_.push_back(std::make_unique<Fiber>(stacks_[t], [this, &thread, body] {
        while (true) {
          body(thread);
          Wait(thread, {.kind = Meeting::kEnded});
        }
      }));
    }
  }

  absl::Status Run(absl::FunctionRef<void()> start_block) {
    std::vector<int64_t> in_turn(blocks_);
    std::iota(in_turn.begin(), in_turn.end(), 0);
    for (const int64_t block : Ordered(in_turn)) {
      block_ = block;
      ++barriers_;
      start_block();
      for (const auto& thread : threads_) thread->waits_ = {};
      if (absl::Status status = RunBlock(); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  int threads() const { return static_cast<int>(threads_.size()); }
  int64_t block() const { return block_; }
  int64_t blocks() const { return blocks_; }
  int64_t barriers() const { return barriers_; }

  // Within the thread's fiber: until it may go on.
  void Wait(EmulatedThread& thread, const Meeting& meeting) {
    thread.waits_ = meeting;
    fibers_[thread.thread_]->Yield();
  }

  // Within the thread's fiber, which nobody resumes, so that nothing may be on its stack
  // that has to be freed: no text either.
  void SetError(const EmulatedThread& thread, const std::string& what) {
    error_ = Error(absl::StrCat("thread ", thread.thread_, " ", what));
  }
  [[noreturn]] void Stop(const EmulatedThread& thread) {
    fibers_[thread.thread_]->Yield();
    LOG(FATAL) << "a thread went on after an error";
  }

 private:
  absl::Status Error(const std::string& what) const {
    return absl::FailedPreconditionError(absl::StrCat("block ", block_, ": ", what));
  }

  template <typename Number>
  std::vector<Number>& Ordered(std::vector<Number>& numbers) {
    if (order_ == ThreadOrder::kShuffled) {
      std::shuffle(numbers.begin(), numbers.end(), random_);
    } else if (order_ == ThreadOrder::kDescending) {
      std::sort(numbers.rbegin(), numbers.rend());
    }
    return numbers;
  }

  absl::Status RunBlock() {
    while (true) {
      for (const int t : Ordered(in_turn_)) {
        if (threads_[t]->waits_.kind != Meeting::kNone) continue;
        fibers_[t]->Resume();
        if (!error_.ok()) return error_;
      }
      const bool ended = std::all_of(threads_.begin(), threads_.end(), [](const auto& t) {
        return t->waits_.kind == Meeting::kEnded;
      });
      if (ended) return absl::OkStatus();
      bool released = ReleaseBarrier();
      for (int first = 0; first < threads(); first += kWarp) {
        released |= ReleaseShuffle(first);
      }
      if (!released) return Stuck();
    }
  }

  // Whether `count` threads from `first` on all wait for the same.
  bool Agree(int first, int count) const {
    return std::all_of(
        threads_.begin() + first, threads_.begin() + first + count,
        [&](const auto& t) { return t->waits_ == threads_[first]->waits_; });
  }

  bool ReleaseBarrier() {
    if (threads_[0]->waits_.kind != Meeting::kBarrier || !Agree(0, threads())) {
      return false;
    }
    ++barriers_;
    for (const auto& thread : threads_) thread->waits_ = {};
    return true;
  }

  bool ReleaseShuffle(int first) {
    const Meeting meeting = threads_[first]->waits_;
    const bool down = meeting.kind == Meeting::kShuffleDown;
    if ((!down && meeting.kind != Meeting::kShuffleXor) || !Agree(first, kWarp)) {
      return false;
    }
    uint64_t brought[kWarp];
    for (int lane = 0; lane < kWarp; ++lane) {
      brought[lane] = threads_[first + lane]->carried_;
    }
    for (int lane = 0; lane < kWarp; ++lane) {
      const int source = down ? lane + meeting.step : lane ^ meeting.step;
      EmulatedThread& thread = *threads_[first + lane];
      thread.carried_ = brought[source < kWarp ? source : lane];
      thread.waits_ = {};
    }
    return true;
  }

  // Nobody can go on: names two threads of which one waits for the other in vain.
  absl::Status Stuck() const {
    const auto shuffles = [](const auto& thread) {
      return thread->waits_.kind == Meeting::kShuffleDown ||
             thread->waits_.kind == Meeting::kShuffleXor;
    };
    // A warp in a shuffle holds up barriers too, and not the other way round.
    auto waits = std::find_if(threads_.begin(), threads_.end(), shuffles);
    int first = 0, count = threads();
    if (waits != threads_.end()) {
      first = (*waits)->thread_ / kWarp * kWarp;
      count = kWarp;
    } else {
      waits = std::find_if(threads_.begin(), threads_.end(), [](const auto& thread) {
        return thread->waits_.kind == Meeting::kBarrier;
      });
    }
    const auto other = std::find_if(
        threads_.begin() + first, threads_.begin() + first + count,
        [&](const auto& thread) { return thread->waits_ != (*waits)->waits_; });
    return Error(absl::StrCat(
        "thread ", (*waits)->thread_, " waits ", (*waits)->waits_.ToString(), ", thread ",
        (*other)->thread_, " ", (*other)->waits_.kind == Meeting::kEnded ? "" : "waits ",
        (*other)->waits_.ToString()));
  }

  const int64_t blocks_;
  const ThreadOrder order_;
  std::mt19937 random_{1};
  std::vector<std::unique_ptr<EmulatedThread>> threads_;
  std::vector<int> in_turn_;
  int64_t block_ = 0;
  int64_t barriers_ = 0;  // Passed so far; the start of a block is one.
  absl::Status error_;
  FiberStacks stacks_;
  std::vector<std::unique_ptr<Fiber>> fibers_;  // Gone before what they use.
};

int EmulatedThread::threads() const { return blocks_->threads(); }
int64_t EmulatedThread::block() const { return blocks_->block(); }
int64_t EmulatedThread::blocks() const { return blocks_->blocks(); }

std::string EmulatedThread::Meeting::ToString() const {
  switch (kind) {
    case kBarrier:
      return absl::StrCat("at the barrier in line ", line);
    case kShuffleDown:
    case kShuffleXor:
      return absl::StrCat("in the shuffle in line ", line, " by ", step);
    case kEnded:
      return "has ended";
    case kNone:
      break;
  }
  return "nowhere";
}

void EmulatedThread::Meet(const Meeting& meeting) {
  if (meeting.step < 0 || meeting.step >= kWarp) {
    SetError(absl::StrCat("shuffles by ", meeting.step, " in line ", meeting.line,
                          ", beyond its warp"));
    Stop();
  }
  blocks_->Wait(*this, meeting);
}

void EmulatedThread::CheckAligned(const void* address, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(address) % bytes == 0) return;
  SetError(absl::StrCat("loads or stores ", bytes,
                        " bytes at an address that is no multiple"));
  Stop();
}

void EmulatedThread::CheckIndex(int index, int count) {
  if (index >= 0 && index < count) return;
  SetError(absl::StrCat("uses shared value ", index, " of ", count));
  Stop();
}

void EmulatedThread::NoteRead(SharedUse& use, int index) {
  const int64_t now = blocks_->barriers();
  if (use.written == SharedUse::kNever) {
    SetError(absl::StrCat("reads shared value ", index, ", which nobody has written"));
    Stop();
  }
  if (use.written == now && use.writer != thread_) {
    SetError(absl::StrCat("reads shared value ", index, ", which thread ", use.writer,
                          " has written since the last barrier"));
    Stop();
  }
  use.reader = use.read == now && use.reader != thread_ ? SharedUse::kSeveral : thread_;
  use.read = now;
}

void EmulatedThread::NoteWrite(SharedUse& use, int index) {
  const int64_t now = blocks_->barriers();
  const bool written = use.written == now && use.writer != thread_;
  if (written || (use.read == now && use.reader != thread_)) {
    SetError(absl::StrCat("writes shared value ", index, ", which another thread has ",
                          written ? "written" : "read", " since the last barrier"));
    Stop();
  }
  use.written = now;
  use.writer = thread_;
}

void EmulatedThread::SetError(const std::string& what) { blocks_->SetError(*this, what); }

void EmulatedThread::Stop() { blocks_->Stop(*this); }

absl::Status EmulateBlocks(int64_t blocks, int threads, ThreadOrder order,
                           absl::FunctionRef<void()> start_block,
                           absl::FunctionRef<void(EmulatedThread&)> body) {
  if (blocks == 0) return absl::OkStatus();
  return EmulatedBlocks(blocks, threads, order, body).Run(start_block);
}

}  // namespace psring
