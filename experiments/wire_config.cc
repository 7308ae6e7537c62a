#include "experiments/wire_config.h"

#include "absl/strings/str_cat.h"
#include "common/wire_type.h"

namespace psring {
namespace {

absl::Status CheckRingsWire(const Arm& arm, const std::string& path,
                            const FieldOrigins& origins) {
  const Wire& wire = arm.wire();
  if (wire.has_int8() || wire.has_top_k()) {
    return origins.Error(
        path + (wire.has_int8() ? ".int8" : ".top_k"),
        "is for pushes to servers, and a ring adds up what is on its way",
        "fp32, bf16, fp16");
  }
  if (!WireType(wire).is_sixteen_bits()) return absl::OkStatus();
  if (arm.ring().transport() == RingMode::SHARED_MEMORY) {
    return origins.Error(path,
                         absl::StrCat("is ", WireType(wire).name(),
                                      ", and in SHARED_MEMORY nothing is on its way"),
                         "fp32, or another transport");
  }
  if (arm.ring().sharded_optimizer()) {
    return origins.Error(
        path,
        absl::StrCat("is ", WireType(wire).name(),
                     ", and with ring.sharded_optimizer half of what is sent are "
                     "parameters, which are fp32"),
        "fp32, or no sharded_optimizer");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckWire(const Arm& arm, const std::string& path,
                       const FieldOrigins& origins) {
  if (!arm.has_wire()) return absl::OkStatus();
  const std::string wire = path + ".wire";
  if (arm.has_local()) {
    return origins.Error(wire, "local arms send nothing", "leaving it out");
  }
  const double share = arm.wire().top_k().share();
  if (arm.has_parameter_server() && arm.wire().has_top_k() &&
      !(share > 0 && share <= 1)) {
    const std::string field = wire + ".top_k.share";
    return origins.Error(field,
                         origins.Has(field) ? absl::StrCat("is ", share) : "missing",
                         "above 0, and at most 1");
  }
  return arm.has_ring() ? CheckRingsWire(arm, wire, origins) : absl::OkStatus();
}

void FillWireDefault(Arm* arm) {
  if (!arm->has_local() && arm->wire().kind_case() == Wire::KIND_NOT_SET) {
    arm->mutable_wire()->mutable_fp32();
  }
}

}  // namespace psring
