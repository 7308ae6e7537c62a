#include "common/grpc_message.h"

#include <utility>
#include <vector>

#include "common/status_macros.h"
#include "common/wire_message.h"
#include "grpcpp/support/slice.h"

namespace psring {

grpc::ByteBuffer MakeMessage(const google::protobuf::MessageLite& header, Bytes payload,
                             std::shared_ptr<const void> owner) {
  using Owner = std::shared_ptr<const void>;
  std::vector<grpc::Slice> slices;
  slices.emplace_back(EncodeHeader(header, static_cast<int64_t>(payload.size())));
  if (!payload.empty()) {
    // gRPC's slices know no const, and change nothing.
    slices.emplace_back(
        const_cast<std::byte*>(payload.data()), payload.size(),
        [](void* owner) { delete static_cast<Owner*>(owner); },
        new Owner(std::move(owner)));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::StatusOr<ReceivedPayload> TakeMessage(grpc::ByteBuffer* buffer,
                                            google::protobuf::MessageLite* header) {
  // Small slices keep their bytes inside of themselves: from here on they do not move.
  const auto slices = std::make_shared<std::vector<grpc::Slice>>();
  if (buffer->Valid() && !buffer->Dump(slices.get()).ok()) {
    return absl::InvalidArgumentError("malformed message: it cannot be read");
  }
  buffer->Clear();
  std::vector<Bytes> bytes;
  bytes.reserve(slices->size());
  for (const grpc::Slice& slice : *slices) {
    bytes.push_back(std::as_bytes(std::span(slice.begin(), slice.size())));
  }
  ASSIGN_OR_RETURN(std::vector<Bytes> pieces, ParseMessage(bytes, header));
  return ReceivedPayload{.pieces = std::move(pieces), .owner = slices};
}

}  // namespace psring
