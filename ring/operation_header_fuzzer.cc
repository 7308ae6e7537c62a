// Input: the bits of a matching header that are flipped.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "common/fuzz_util.h"
#include "glog/logging.h"
#include "ring/operation_header.h"

namespace psring {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const OperationHeader ours = {
      .job_fingerprint = 1, .sequence = 9, .step = 7, .count = 100, .bucket = 3};
  const OperationHeader theirs = FlipBits(ours, {data, size});
  const absl::Status status = CheckSameOperation(theirs, ours, "worker 1", "worker 2");
  const size_t compared = std::min(size, sizeof(OperationHeader));
  const bool same = std::all_of(data, data + compared, [](uint8_t c) { return c == 0; });
  CHECK_EQ(status.ok(), same) << status;
  if (same) return 0;
  CHECK(absl::IsFailedPrecondition(status)) << status;
  CHECK(absl::StrContains(status.message(), "worker 1")) << status;
  CHECK(IsOneLine(status.message())) << status;
  return 0;
}

}  // namespace psring
