// Keeps log lines from being printed into a picture.
#ifndef PSRING_EXPERIMENTS_LIVE_HELD_LOG_LINES_H_
#define PSRING_EXPERIMENTS_LIVE_HELD_LOG_LINES_H_

#include <string>

#include "common/mutex.h"
#include "glog/logging.h"

namespace psring {

// While one lives, and there is at most one at a time, glog prints nothing but what ends
// the program; the rest waits for Take. Made and destroyed while no other thread logs.
class HeldLogLines final : public google::LogSink {
 public:
  HeldLogLines();
  ~HeldLogLines() override;

  // Lines since the last call, each with its end. Any thread.
  std::string Take();

 private:
  void send(google::LogSeverity severity, const char* full_filename,
            const char* base_filename, int line, const google::LogMessageTime& time,
            const char* message, size_t message_len) override;

  const bool old_to_stderr_;
  const int old_threshold_;
  Mutex mutex_;
  std::string lines_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_LIVE_HELD_LOG_LINES_H_
