// Input: how many bytes each slice has, less one, then a message in such slices.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/float_pieces.h"
#include "common/fuzz_util.h"
#include "common/wire_message.h"
#include "glog/logging.h"
#include "proto/parameter_server.pb.h"

namespace psring {
namespace {

std::string BytesOf(const std::vector<Bytes>& pieces) {
  std::string bytes;
  for (const Bytes& piece : pieces) {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  return bytes;
}

// Read float by float, not piece by piece.
std::string BytesOf(const FloatPieces& floats) {
  std::string bytes;
  FloatReader reader(floats);
  for (int64_t left = floats.count(); left > 0;) {
    const Bytes next = reader.Next(left);
    bytes.append(reinterpret_cast<const char*>(next.data()), next.size());
    left -= static_cast<int64_t>(next.size() / sizeof(float));
  }
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Bytes message = std::as_bytes(std::span(data + 1, size - 1));
  std::vector<Bytes> slices;
  for (Bytes left = message; !left.empty();) {
    slices.push_back(left.first(std::min<size_t>(left.size(), data[0] + 1)));
    left = left.subspan(slices.back().size());
  }
  ParameterRequest header;
  const absl::StatusOr<std::vector<Bytes>> payload = ParseMessage({&message, 1}, &header);
  // It makes no difference where the network cuts.
  ParameterRequest cut_header;
  const absl::StatusOr<std::vector<Bytes>> cut_payload =
      ParseMessage(slices, &cut_header);
  CHECK_EQ(payload.status(), cut_payload.status());
  if (!payload.ok()) {
    CHECK(absl::IsInvalidArgument(payload.status())) << payload.status();
    CHECK(IsOneLine(payload.status().message())) << payload.status();
    return 0;
  }
  // Any protobuf implementation accepts it as well, and reads the same.
  ParameterRequest request;
  CHECK(request.ParseFromArray(message.data(), static_cast<int>(message.size())));
  CHECK(BytesOf(*payload) == request.payload());
  CHECK(BytesOf(*cut_payload) == request.payload());
  const absl::StatusOr<FloatPieces> floats = FloatsOf(*cut_payload);
  CHECK_EQ(floats.ok(), request.payload().size() % sizeof(float) == 0);
  if (floats.ok()) {
    CHECK(BytesOf(*floats) == request.payload());
  } else {
    CHECK(IsOneLine(floats.status().message())) << floats.status();
  }
  request.clear_payload();
  CHECK_EQ(header.SerializeAsString(), request.SerializeAsString());
  CHECK_EQ(cut_header.SerializeAsString(), request.SerializeAsString());
  return 0;
}

}  // namespace psring
