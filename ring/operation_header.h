// What opens both byte streams of every operation between two ranks, so that ranks which
// are not at the same operation find out before any payload counts. Pure.
#ifndef PSRING_RING_OPERATION_HEADER_H_
#define PSRING_RING_OPERATION_HEADER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace psring {

enum class OperationKind : uint32_t {
  kAllReduce = 1,
  kBroadcast = 2,
  kReduceScatter = 3,
  kAllGather = 4,
  kBarrier = 5,
};
enum class ElementType : uint32_t { kFloat32 = 1, kBf16 = 2, kFp16 = 3 };

// As it lies on the wire, in the byte order of the (little-endian) hosts. One that came
// from outside may hold any bytes, enumerators that do not exist included.
struct OperationHeader {
  static constexpr uint32_t kMagic = 0x4c4c4152;  // "RALL"

  uint32_t magic = kMagic;
  OperationKind kind = OperationKind::kAllReduce;
  uint64_t job_fingerprint = 0;
  uint64_t sequence = 0;  // Operations before this one.
  int64_t step = 0;
  int64_t count = 0;
  int32_t bucket = 0;
  ElementType element_type = ElementType::kFloat32;

  friend bool operator==(const OperationHeader&, const OperationHeader&) = default;
};
static_assert(sizeof(OperationHeader) == 48);

// "sum of bucket 3 (1000 floats) at step 12".
std::string Describe(const OperationHeader& header);

// OK where both headers are the same; otherwise kFailedPrecondition with what each side
// is at: `peer`, which sent `theirs`, and `self`. Both are names, because others will
// read it.
absl::Status CheckSameOperation(const OperationHeader& theirs,
                                const OperationHeader& ours, absl::string_view peer,
                                absl::string_view self);

}  // namespace psring

#endif  // PSRING_RING_OPERATION_HEADER_H_
