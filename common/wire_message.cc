#include "common/wire_message.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace psring {
namespace {

// How the bytes behind a tag are to be read.
enum WireType : uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kLengthDelimited = 2,
  kFixed32 = 5,
};
constexpr uint64_t kPayloadTag = kPayloadField << 3 | kLengthDelimited;
constexpr uint64_t kLargestTag = UINT32_MAX;
constexpr int kLongestVarint = 10;

absl::Status Malformed(absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat("malformed message: ", problem));
}

void AppendVarint(uint64_t value, std::string* to) {
  for (; value >= 0x80; value >>= 7) to->push_back(static_cast<char>(value | 0x80));
  to->push_back(static_cast<char>(value));
}

// A position in the slices; every step is checked against what is left.
class Cursor {
 public:
  explicit Cursor(std::span<const Bytes> slices) : slices_(slices) {
    for (const Bytes& slice : slices_) left_ += slice.size();
  }

  uint64_t left() const { return left_; }

  // Hands `use` the next bytes, slice by slice; there are so many left.
  template <typename Use>
  void Take(uint64_t count, Use use) {
    CHECK_LE(count, left_);
    left_ -= count;
    while (count > 0) {
      const Bytes slice = slices_.front().subspan(offset_);
      const Bytes taken = slice.first(std::min<uint64_t>(count, slice.size()));
      if (!taken.empty()) use(taken);
      count -= taken.size();
      offset_ += taken.size();
      if (taken.size() == slice.size()) {
        slices_ = slices_.subspan(1);
        offset_ = 0;
      }
    }
  }

  // A varint, whose bytes are appended to `copy` as well.
  absl::StatusOr<uint64_t> TakeVarint(std::string* copy) {
    uint64_t value = 0;
    for (int i = 0; i < kLongestVarint; ++i) {
      if (left_ == 0) return Malformed("it ends within a number");
      uint8_t byte = 0;
      Take(1, [&](Bytes taken) { byte = static_cast<uint8_t>(taken[0]); });
      copy->push_back(static_cast<char>(byte));
      // The tenth byte has room for the 64th bit only.
      if (i == kLongestVarint - 1 && byte > 1) break;
      value |= uint64_t{byte & 0x7fu} << 7 * i;
      if (byte < 0x80) return value;
    }
    return Malformed("a number has more than 64 bits");
  }

 private:
  std::span<const Bytes> slices_;  // What is left; of the first, from offset_ on.
  size_t offset_ = 0;
  uint64_t left_ = 0;
};

}  // namespace

std::string EncodeHeader(const google::protobuf::MessageLite& header,
                         int64_t payload_bytes) {
  CHECK_GE(payload_bytes, 0);
  std::string bytes = header.SerializeAsString();
  if (payload_bytes == 0) return bytes;
  AppendVarint(kPayloadTag, &bytes);
  AppendVarint(static_cast<uint64_t>(payload_bytes), &bytes);
  return bytes;
}

// One turn of the loop is one field: its tag, then by its type the number or the bytes
// behind it. What belongs to the header is copied with its tag, the fields inside
// submessages are their parser's business.
absl::StatusOr<SplitMessage> Split(std::span<const Bytes> slices) {
  SplitMessage message;
  std::string& header = message.header;
  bool has_payload = false;
  Cursor cursor(slices);
  while (cursor.left() > 0) {
    const size_t field_begin = header.size();
    ASSIGN_OR_RETURN(const uint64_t tag, cursor.TakeVarint(&header));
    const uint64_t field = tag >> 3;
    if (field == 0 || tag > kLargestTag) {
      return Malformed(absl::StrCat("there is no field ", field));
    }
    uint64_t count = 0;  // Of bytes that follow.
    switch (tag & 7) {
      case kVarint:
        RETURN_IF_ERROR(cursor.TakeVarint(&header).status());
        break;
      case kFixed64:
        count = 8;
        break;
      case kLengthDelimited: {
        ASSIGN_OR_RETURN(count, cursor.TakeVarint(&header));
        break;
      }
      case kFixed32:
        count = 4;
        break;
      default:
        return Malformed(absl::StrCat("field ", field, " has type ", tag & 7));
    }
    if (count > cursor.left()) {
      return Malformed(absl::StrCat("field ", field, " has ", count, " bytes, and ",
                                    cursor.left(), " are left"));
    }
    if (tag == kPayloadTag) {
      if (std::exchange(has_payload, true)) return Malformed("it has two payloads");
      header.resize(field_begin);
      cursor.Take(count, [&](Bytes taken) { message.payload.push_back(taken); });
      continue;
    }
    if (header.size() + count > kMaxHeaderBytes) {
      return Malformed(
          absl::StrCat("its header has more than ", kMaxHeaderBytes, " bytes"));
    }
    cursor.Take(count, [&](Bytes taken) {
      header.append(reinterpret_cast<const char*>(taken.data()), taken.size());
    });
  }
  return message;
}

absl::StatusOr<std::vector<Bytes>> ParseMessage(std::span<const Bytes> slices,
                                                google::protobuf::MessageLite* header) {
  ASSIGN_OR_RETURN(SplitMessage message, Split(slices));
  if (!header->ParseFromString(message.header)) {
    return Malformed(absl::StrCat("its header is no ", header->GetTypeName()));
  }
  return std::move(message.payload);
}

absl::StatusOr<FloatPieces> FloatsOf(std::vector<Bytes> payload) {
  size_t bytes = 0;
  for (const Bytes& piece : payload) bytes += piece.size();
  if (bytes % sizeof(float) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the payload has ", bytes, " bytes, which are no whole floats"));
  }
  return FloatPieces(std::move(payload));
}

}  // namespace psring
