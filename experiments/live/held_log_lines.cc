#include "experiments/live/held_log_lines.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace psring {

HeldLogLines::HeldLogLines()
    : old_to_stderr_(FLAGS_logtostderr), old_threshold_(FLAGS_stderrthreshold) {
  // An empty name is no file, which glog would write where it does not print.
  for (int severity = 0; severity < google::NUM_SEVERITIES; ++severity) {
    google::SetLogDestination(severity, "");
  }
  FLAGS_stderrthreshold = google::GLOG_FATAL;
  google::AddLogSink(this);
  FLAGS_logtostderr = false;
}

HeldLogLines::~HeldLogLines() {
  FLAGS_logtostderr = old_to_stderr_;
  google::RemoveLogSink(this);
  FLAGS_stderrthreshold = old_threshold_;
}

std::string HeldLogLines::Take() {
  MutexLock lock(&mutex_);
  return std::exchange(lines_, "");
}

void HeldLogLines::send(google::LogSeverity severity, const char* /*full_filename*/,
                        const char* base_filename, int line,
                        const google::LogMessageTime& time, const char* message,
                        size_t message_len) {
  if (severity == google::GLOG_FATAL) return;  // It has been printed.
  const std::string text =
      ToString(severity, base_filename, line, time, message, message_len);
  MutexLock lock(&mutex_);
  absl::StrAppend(&lines_, text, "\n");
}

}  // namespace psring
