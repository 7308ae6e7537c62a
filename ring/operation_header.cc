#include "ring/operation_header.h"

#include <bit>

#include "absl/strings/str_cat.h"

namespace psring {

static_assert(std::endian::native == std::endian::little);

namespace {

const char* NameOf(ElementType type) {
  switch (type) {
    case ElementType::kFloat32:
      return "floats";
    case ElementType::kBf16:
      return "bf16 numbers";
    case ElementType::kFp16:
      return "fp16 numbers";
  }
  return "unknown elements";
}

}  // namespace

std::string Describe(const OperationHeader& header) {
  const std::string size = absl::StrCat(header.count, " ", NameOf(header.element_type));
  const std::string which =
      absl::StrCat(" of bucket ", header.bucket, " (", size, ") at step ", header.step);
  switch (header.kind) {
    case OperationKind::kAllReduce:
      return absl::StrCat("sum", which);
    case OperationKind::kReduceScatter:
      return absl::StrCat("reduce-scatter", which);
    case OperationKind::kAllGather:
      return absl::StrCat("all-gather", which);
    case OperationKind::kBroadcast:
      return absl::StrCat("broadcast of ", size);
    case OperationKind::kBarrier:
      return "barrier";
  }
  return absl::StrCat("unknown operation ", static_cast<uint32_t>(header.kind));
}

absl::Status CheckSameOperation(const OperationHeader& theirs,
                                const OperationHeader& ours, absl::string_view peer,
                                absl::string_view self) {
  if (theirs == ours) return absl::OkStatus();
  if (theirs.magic != ours.magic) {
    return absl::FailedPreconditionError(
        absl::StrCat(peer, " sent bytes that begin no operation"));
  }
  const auto describe = [](const OperationHeader& header) {
    return absl::StrCat(Describe(header), ", operation ", header.sequence, " of job ",
                        absl::Hex(header.job_fingerprint, absl::kZeroPad16));
  };
  return absl::FailedPreconditionError(absl::StrCat(
      peer, " is at ", describe(theirs), ", and ", self, " at ", describe(ours)));
}

}  // namespace psring
