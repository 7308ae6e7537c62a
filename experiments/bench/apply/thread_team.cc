#include "experiments/bench/apply/thread_team.h"

#include "glog/logging.h"

namespace psring {

ThreadTeam::ThreadTeam(int size) : size_(size) {
  CHECK_GT(size_, 0);
  for (int thread = 1; thread < size_; ++thread) {
    others_.emplace_back([this, thread] { Serve(thread); });
  }
}

ThreadTeam::~ThreadTeam() {
  {
    MutexLock lock(&mutex_);
    end_ = true;
  }
  changed_.NotifyAll();
  for (std::thread& other : others_) other.join();
}

void ThreadTeam::Run(absl::FunctionRef<void(int thread)> work) {
  {
    MutexLock lock(&mutex_);
    work_.emplace(work);
    ++operation_;
    working_ = size_ - 1;
  }
  changed_.NotifyAll();
  work(0);
  MutexLock lock(&mutex_);
  while (working_ > 0) changed_.Wait(&mutex_);
  work_.reset();
}

void ThreadTeam::Serve(int thread) {
  int64_t done = 0;
  MutexLock lock(&mutex_);
  while (true) {
    while (!end_ && operation_ == done) changed_.Wait(&mutex_);
    if (end_) return;
    done = operation_;
    const absl::FunctionRef<void(int thread)> work = *work_;
    mutex_.Unlock();
    work(thread);
    mutex_.Lock();
    if (--working_ == 0) changed_.NotifyAll();
  }
}

}  // namespace psring
