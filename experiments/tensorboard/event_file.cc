#include "experiments/tensorboard/event_file.h"

#include <errno.h>
#include <string.h>

#include <filesystem>
#include <span>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/crc32c.h"
#include "common/status_macros.h"
#include "proto/tensorboard_event.pb.h"

namespace psring {
namespace {

std::string LittleEndian(uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(number >> (8 * i));
  return text;
}

double UnixSeconds(absl::Time time) {
  return absl::ToDoubleSeconds(time - absl::UnixEpoch());
}

}  // namespace

uint32_t MaskedCrc32c(absl::string_view data) {
  const uint32_t crc = Crc32c(std::as_bytes(std::span(data.data(), data.size())));
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8U;
}

std::string FramedRecord(absl::string_view data) {
  const std::string length = LittleEndian(data.size(), 8);
  return absl::StrCat(length, LittleEndian(MaskedCrc32c(length), 4), data,
                      LittleEndian(MaskedCrc32c(data), 4));
}

EventFile::EventFile(std::string path)
    : path_(std::move(path)), out_(path_, std::ios::binary | std::ios::trunc) {}

absl::StatusOr<std::unique_ptr<EventFile>> EventFile::Create(const std::string& folder,
                                                             absl::Time time,
                                                             const std::string& host) {
  std::string path;
  std::error_code error;
  for (int64_t seconds = absl::ToUnixSeconds(time);; ++seconds) {
    path = absl::StrCat(folder, "/events.out.tfevents.", seconds, ".", host);
    if (!std::filesystem::exists(path, error)) break;
  }
  auto file = std::unique_ptr<EventFile>(new EventFile(path));
  tensorboard::Event version;
  version.set_wall_time(UnixSeconds(time));
  version.set_file_version("brain.Event:2");
  file->out_ << FramedRecord(version.SerializeAsString());
  RETURN_IF_ERROR(file->Flush());
  return file;
}

void EventFile::Add(absl::Time time, int64_t step, const Scalars& scalars) {
  tensorboard::Event event;
  event.set_wall_time(UnixSeconds(time));
  event.set_step(step);
  for (const auto& [tag, scalar] : scalars) {
    tensorboard::Summary::Value& value = *event.mutable_summary()->add_value();
    value.set_tag(tag);
    value.set_simple_value(static_cast<float>(scalar));
  }
  out_ << FramedRecord(event.SerializeAsString());
}

absl::Status EventFile::Flush() {
  errno = 0;
  out_.flush();
  if (out_.good()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cannot write ", path_, ": ",
                                          errno == 0 ? "unknown" : strerror(errno)));
}

}  // namespace psring
