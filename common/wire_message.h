// The split of a protobuf message into a small header and a large payload, so that
// tensor bytes are neither copied nor parsed. Pure.
//
// The messages are real ones, and any protobuf implementation reads and writes them: the
// payload is field 15, `bytes`, and everything else is the header. On the way out the
// header is serialized first, followed by the payload's tag and length; the payload's
// bytes themselves are the sender's memory. On the way in the message is in slices as
// the network cut it: the fields are walked, the header's bytes are gathered for the
// generated parser, and the payload stays where it is.
#ifndef PSRING_COMMON_WIRE_MESSAGE_H_
#define PSRING_COMMON_WIRE_MESSAGE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/float_pieces.h"
#include "google/protobuf/message_lite.h"

namespace psring {

inline constexpr int kPayloadField = 15;
// All of a message but the payload's bytes.
inline constexpr int64_t kMaxHeaderBytes = 64 << 10;

// What precedes the payload's bytes in a message; the header alone where there are none.
// `header` has no payload set.
std::string EncodeHeader(const google::protobuf::MessageLite& header,
                         int64_t payload_bytes);

struct SplitMessage {
  std::string header;
  std::vector<Bytes> payload;  // In the slices.
};

// Takes any bytes. InvalidArgument, in one line, for what is no protobuf message: one
// that ends within a field, a length beyond the end (negative ones are), a number of more
// than 64 bits, a field number that cannot be; and for two payloads, a header of more
// than kMaxHeaderBytes, and the groups of old protobuf.
absl::StatusOr<SplitMessage> Split(std::span<const Bytes> slices);

// Split, with the header parsed into `header` (any message without the payload's field,
// or with it left empty). Returns the payload.
absl::StatusOr<std::vector<Bytes>> ParseMessage(std::span<const Bytes> slices,
                                                google::protobuf::MessageLite* header);

// A payload of floats. InvalidArgument where its bytes are no whole ones.
absl::StatusOr<FloatPieces> FloatsOf(std::vector<Bytes> payload);

}  // namespace psring

#endif  // PSRING_COMMON_WIRE_MESSAGE_H_
