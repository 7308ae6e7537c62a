#include "ring/control_message.h"

#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace psring {
namespace {

static_assert(std::endian::native == std::endian::little);

// Opens every message, as it lies on the wire.
struct ControlHeader {
  uint32_t reason_bytes = 0;  // 0: no reason follows, and `waiting` is the message.
  uint32_t waiting = 0;
};
static_assert(sizeof(ControlHeader) == 8);

// Always fits into the buffer of an idle connection.
constexpr size_t kMaxReasonBytes = 8 << 10;

std::string Bytes(const ControlHeader& header) {
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header));
}

}  // namespace

std::string EncodeWaiting(bool waiting) { return Bytes({.waiting = waiting}); }

std::string EncodeReason(const Failure& reason) {
  std::string bytes = reason.SerializeAsString();
  if (bytes.size() > kMaxReasonBytes) {
    Failure shorter = reason;
    shorter.set_message(
        absl::StrCat("its reason has ", reason.message().size(), " bytes"));
    bytes = shorter.SerializeAsString();
  }
  return Bytes({.reason_bytes = static_cast<uint32_t>(bytes.size())}) + bytes;
}

void ControlReader::Take(std::span<const std::byte> bytes) {
  if (ended_) return;
  unread_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (unread_.size() >= sizeof(ControlHeader)) {
    ControlHeader header;
    std::memcpy(&header, unread_.data(), sizeof(header));
    if (header.reason_bytes == 0) {
      waiting_ = header.waiting != 0;
      unread_.erase(0, sizeof(header));
      continue;
    }
    ended_ = header.reason_bytes > kMaxReasonBytes;
    if (ended_ || unread_.size() < sizeof(header) + header.reason_bytes) return;
    ended_ = true;
    Failure reason;
    if (reason.ParseFromString(unread_.substr(sizeof(header), header.reason_bytes))) {
      reason_ = reason;
    }
    return;
  }
}

}  // namespace psring
