#include "experiments/trace/event_writer.h"

#include <errno.h>
#include <string.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace psring {
namespace {

using nlohmann::ordered_json;

constexpr size_t kBufferBytes = size_t{1} << 18;

// Texts come from a file: what is no UTF-8 in them is replaced, and not an exception.
std::string Dump(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

void AppendMicroseconds(int64_t ns, std::string* text) {
  const uint64_t size = ns < 0 ? -static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
  absl::StrAppendFormat(text, "%s%d.%03d", ns < 0 ? "-" : "", size / 1000, size % 1000);
}

}  // namespace

absl::StatusOr<EventWriter> EventWriter::Create(const std::string& path) {
  std::string beside = absl::StrCat(path, ".new");
  std::FILE* const file = std::fopen(beside.c_str(), "wb");
  if (file == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write ", path, ": ", strerror(errno)));
  }
  return EventWriter(path, std::move(beside), file);
}

EventWriter::EventWriter(std::string path, std::string beside, std::FILE* file)
    : path_(std::move(path)),
      beside_(std::move(beside)),
      file_(file),
      buffer_("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[") {}

EventWriter::~EventWriter() {
  if (file_ != nullptr) std::remove(beside_.c_str());
}

void EventWriter::NameProcess(int process, const std::string& name) {
  Begin('M', {.process = process}, "process_name");
  End({{"name", name}});
  Begin('M', {.process = process}, "process_sort_index");
  End({{"sort_index", process}});
}

void EventWriter::NameLane(Lane lane, const std::string& name) {
  Begin('M', lane, "thread_name");
  End({{"name", name}});
  Begin('M', lane, "thread_sort_index");
  End({{"sort_index", lane.thread}});
}

void EventWriter::Complete(Lane lane, const std::string& name, int64_t begin_ns,
                           int64_t end_ns, const ordered_json& args) {
  Begin('X', lane, name);
  buffer_.append(",\"ts\":");
  AppendMicroseconds(begin_ns, &buffer_);
  buffer_.append(",\"dur\":");
  AppendMicroseconds(end_ns - begin_ns, &buffer_);
  End(args);
}

void EventWriter::Arrow(Flow flow, int64_t id, Lane lane, const std::string& name,
                        int64_t time_ns, const ordered_json& args) {
  Begin(flow == Flow::kStart ? 's' : flow == Flow::kStep ? 't' : 'f', lane, name);
  absl::StrAppend(&buffer_, ",\"cat\":\"exchange\",\"id\":", id, ",\"ts\":");
  AppendMicroseconds(time_ns, &buffer_);
  // To the event that encloses it, and not to the next one.
  if (flow == Flow::kFinish) buffer_.append(",\"bp\":\"e\"");
  End(args);
}

void EventWriter::Begin(char phase, Lane lane, absl::string_view name) {
  buffer_.append(events_++ == 0 ? "\n" : ",\n");
  absl::StrAppend(&buffer_, "{\"ph\":\"", absl::string_view(&phase, 1),
                  "\",\"pid\":", lane.process, ",\"tid\":", lane.thread,
                  ",\"name\":", Dump(std::string(name)));
}

void EventWriter::End(const ordered_json& args) {
  if (!args.is_null()) absl::StrAppend(&buffer_, ",\"args\":", Dump(args));
  buffer_.push_back('}');
  if (buffer_.size() >= kBufferBytes) Flush();
}

void EventWriter::Flush() {
  errno = 0;
  if (failed_ == 0 &&
      std::fwrite(buffer_.data(), 1, buffer_.size(), file_.get()) != buffer_.size()) {
    failed_ = errno != 0 ? errno : EIO;
  }
  bytes_ += static_cast<int64_t>(buffer_.size());
  buffer_.clear();
}

absl::Status EventWriter::Finish(const ordered_json& metadata) {
  absl::StrAppend(&buffer_, "\n],\n\"otherData\":", Dump(metadata), "}\n");
  Flush();
  errno = 0;
  if (std::fclose(file_.release()) != 0 && failed_ == 0) failed_ = errno;
  if (failed_ == 0 && std::rename(beside_.c_str(), path_.c_str()) == 0) {
    return absl::OkStatus();
  }
  if (failed_ == 0) failed_ = errno;
  std::remove(beside_.c_str());
  return absl::InternalError(
      absl::StrCat("cannot write ", path_, ": ", strerror(failed_)));
}

}  // namespace psring
