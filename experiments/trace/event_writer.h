// A file in Chrome's trace event format, written as the events come.
#ifndef PSRING_EXPERIMENTS_TRACE_EVENT_WRITER_H_
#define PSRING_EXPERIMENTS_TRACE_EVENT_WRITER_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace psring {

// A lane of the picture: a thread of a process, by the viewer's words.
struct Lane {
  int process = 0;
  int thread = 0;
};

enum class Flow { kStart, kStep, kFinish };

// Times are nanoseconds since the trace's zero; the file has microseconds with three
// decimals, so that nothing is rounded. Keeps no more than a buffer: an error of the disk
// is Finish's. The file has its name only when it is whole.
//
// Source: "Trace Event Format", the Chromium project: the JSON object format with
// complete (X), flow (s, t, f) and metadata (M) events.
class EventWriter {
 public:
  // InvalidArgument: it cannot be made.
  static absl::StatusOr<EventWriter> Create(const std::string& path);
  // Removes what is not finished.
  ~EventWriter();
  EventWriter(EventWriter&& other) noexcept = default;
  EventWriter& operator=(EventWriter&&) = delete;

  // How the viewer calls a process or a lane, and which stands above which: by number.
  void NameProcess(int process, const std::string& name);
  void NameLane(Lane lane, const std::string& name);

  // `args` is an object or null. In one lane an event is within another or apart from it,
  // and of those that begin together the outer one comes first.
  void Complete(Lane lane, const std::string& name, int64_t begin_ns, int64_t end_ns,
                const nlohmann::ordered_json& args = nullptr);
  // A point of the arrow `id`, on the innermost event of the lane at that time, which has
  // been written before. Points come in order of time.
  void Arrow(Flow flow, int64_t id, Lane lane, const std::string& name, int64_t time_ns,
             const nlohmann::ordered_json& args = nullptr);

  // Ends the file, with `metadata` as its "otherData".
  absl::Status Finish(const nlohmann::ordered_json& metadata);

  int64_t events() const { return events_; }
  int64_t bytes() const { return bytes_; }

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  EventWriter(std::string path, std::string beside, std::FILE* file);
  void Begin(char phase, Lane lane, absl::string_view name);
  void End(const nlohmann::ordered_json& args);
  void Flush();

  std::string path_;
  std::string beside_;  // Where it is until it is whole.
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::string buffer_;
  int64_t events_ = 0;
  int64_t bytes_ = 0;
  int failed_ = 0;  // The first error of the system.
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_TRACE_EVENT_WRITER_H_
