#include "experiments/compare_wires.h"

#include <cstddef>

#include "google/protobuf/util/message_differencer.h"

namespace psring {
namespace {

JobSpec WithoutWire(JobSpec spec) {
  spec.clear_job();
  spec.mutable_arm()->clear_name();
  spec.mutable_arm()->clear_wire();
  return spec;
}

bool HasFinalLoss(const ArmResult& run) { return run.learns && run.error.empty(); }

}  // namespace

void CompareWires(const std::vector<JobSpec>& specs, std::vector<ArmResult>* runs) {
  for (size_t i = 0; i < runs->size(); ++i) {
    ArmResult& run = (*runs)[i];
    if (run.wire.is_fp32() || !HasFinalLoss(run)) continue;
    const JobSpec own = WithoutWire(specs[i]);
    for (size_t reference = 0; reference < runs->size(); ++reference) {
      const ArmResult& other = (*runs)[reference];
      if (!other.wire.is_fp32() || !HasFinalLoss(other)) continue;
      if (!google::protobuf::util::MessageDifferencer::Equals(
              own, WithoutWire(specs[reference]))) {
        continue;
      }
      run.wire.fp32_arm = other.name;
      run.wire.loss_over_fp32 = run.final_loss - other.final_loss;
      break;
    }
  }
}

}  // namespace psring
