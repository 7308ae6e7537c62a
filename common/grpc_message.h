// Messages with a payload (common/wire_message.h) in and out of gRPC's buffers.
#ifndef PSRING_COMMON_GRPC_MESSAGE_H_
#define PSRING_COMMON_GRPC_MESSAGE_H_

#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/float_pieces.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/support/byte_buffer.h"

namespace psring {

// The message of `header`, which has no payload set, with `payload`, whose memory the
// buffer references until gRPC is done with it: `owner` is dropped then, by any thread,
// from within gRPC. So what ends with the owner may take a lock of its own, but neither
// call gRPC nor wait.
grpc::ByteBuffer MakeMessage(const google::protobuf::MessageLite& header, Bytes payload,
                             std::shared_ptr<const void> owner);

// A payload that was received, in gRPC's memory.
struct ReceivedPayload {
  std::vector<Bytes> pieces;
  std::shared_ptr<const void> owner;  // Keeps them.
};

// Parses `header` and leaves the payload where it is. Empties the buffer. Errors as of
// ParseMessage.
absl::StatusOr<ReceivedPayload> TakeMessage(grpc::ByteBuffer* buffer,
                                            google::protobuf::MessageLite* header);

}  // namespace psring

#endif  // PSRING_COMMON_GRPC_MESSAGE_H_
