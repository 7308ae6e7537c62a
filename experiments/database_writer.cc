#include "experiments/database_writer.h"

#include <utility>

#include "common/processor_time.h"
#include "common/status_macros.h"

namespace psring {

DatabaseWriter::DatabaseWriter(std::unique_ptr<RunDatabase> database)
    : database_(std::move(database)), thread_([this] { Run(); }) {}

DatabaseWriter::~DatabaseWriter() {
  {
    MutexLock lock(&mutex_);
    stop_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

void DatabaseWriter::Add(Write write) {
  MutexLock lock(&mutex_);
  waiting_.push_back(std::move(write));
  ++added_;
  if (waiting_.size() == 1) changed_.NotifyAll();
}

absl::Status DatabaseWriter::Flush() {
  MutexLock lock(&mutex_);
  const int64_t mine = added_;
  if (done_ < mine) {
    hurry_ = true;
    changed_.NotifyAll();
  }
  while (done_ < mine) changed_.Wait(&mutex_);
  return status_;
}

absl::Status DatabaseWriter::status() const {
  MutexLock lock(&mutex_);
  return status_;
}

absl::Duration DatabaseWriter::processor_time() const {
  MutexLock lock(&mutex_);
  return processor_time_;
}

void DatabaseWriter::Run() {
  std::vector<Write> writes;
  while (true) {
    absl::Status status;
    writes.clear();  // Outside of the lock: it frees much.
    {
      MutexLock lock(&mutex_);
      while (waiting_.empty() && !stop_) changed_.Wait(&mutex_);
      if (waiting_.empty()) return;
      const auto deadline = SteadyDeadline(kCommitInterval);
      bool expired = false;
      while (!expired && !hurry_ && !stop_) {
        expired = changed_.WaitUntil(&mutex_, deadline);
      }
      hurry_ = false;
      writes.swap(waiting_);
      status = status_;
    }
    if (status.ok()) status = DoAll(writes);
    MutexLock lock(&mutex_);
    status_ = status;
    done_ += static_cast<int64_t>(writes.size());
    processor_time_ = ThreadProcessorTime();
    changed_.NotifyAll();
  }
}

absl::Status DatabaseWriter::DoAll(const std::vector<Write>& writes) {
  RETURN_IF_ERROR(database_->Begin());
  for (const Write& write : writes) RETURN_IF_ERROR(write(*database_));
  return database_->Commit();
}

}  // namespace psring
