#include "experiments/replica_certificate.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiments/arm_mode.h"

namespace psring {

Certificate CertifyReplicas(const JobSpec& spec, const ArmRecords& records) {
  if (!InLockstep(spec)) {
    return {.verdict = Verdict::kNotApplicable,
            .why = "workers of this mode need not have the same parameters"};
  }
  if (spec.workers() < 2)
    return {.verdict = Verdict::kNotApplicable, .why = "one replica"};
  for (int rank = 0; rank < spec.workers(); ++rank) {
    const bool reported = rank < static_cast<int>(records.steps.size());
    const int64_t steps = reported ? static_cast<int64_t>(records.steps[rank].size()) : 0;
    if (steps == spec.steps()) continue;
    return {.verdict = Verdict::kFail,
            .why = absl::StrCat("worker ", rank, " made ", steps, " steps of ",
                                spec.steps())};
  }
  const std::vector<StepRecord>& first = records.steps[0];
  int64_t checked = 0;
  for (size_t step = 0; step < first.size(); ++step) {
    const StepRecord& a = first[step];
    for (size_t rank = 1; rank < records.steps.size(); ++rank) {
      const StepRecord& b = records.steps[rank][step];
      if (a.has_parameter_digest() != b.has_parameter_digest() ||
          a.parameter_digest() != b.parameter_digest()) {
        return {.verdict = Verdict::kFail,
                .why = absl::StrFormat(
                    "after step %d worker 0 has digest %016x, worker %d %016x", step,
                    a.parameter_digest(), rank, b.parameter_digest())};
      }
    }
    checked += a.has_parameter_digest();
  }
  return {.verdict = Verdict::kPass,
          .why = absl::StrCat(records.steps.size(), " ranks equal at ", checked,
                              " checked steps")};
}

}  // namespace psring
