// Input: the bits of the expected neighbour's handshake that are flipped.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "common/errors.h"
#include "common/fuzz_util.h"
#include "glog/logging.h"
#include "proto/coordinator.pb.h"
#include "ring/tcp_handshake.h"

namespace psring {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const RingMember self = {
      .job = "a", .rank = 2, .ranks = 4, .layout_fingerprint = 0xabc};
  const RingMember left = {
      .job = "a", .rank = 1, .ranks = 4, .layout_fingerprint = 0xabc};
  const Handshake expected = MakeHandshake(left, self.rank, 0, HandshakeVerdict::kAsking);
  Handshake handshake = FlipBits(expected, {data, size});
  const absl::Status status = JudgeHandshake(handshake, self, left.rank);
  if (status.ok()) {
    // It is the neighbour's, but for what is not judged.
    handshake.verdict = expected.verdict;
    handshake.connection = expected.connection;
    std::memcpy(handshake.job, expected.job, sizeof(expected.job));
    CHECK_EQ(std::memcmp(&handshake, &expected, sizeof(expected)), 0);
    return 0;
  }
  CHECK(absl::IsNotFound(status) || absl::IsFailedPrecondition(status)) << status;
  CHECK(IsOneLine(status.message())) << status;
  // A rank that gives up reports this to the coordinator.
  CHECK(Failure().ParseFromString(ToFailure(status).SerializeAsString())) << status;
  return 0;
}

}  // namespace psring
