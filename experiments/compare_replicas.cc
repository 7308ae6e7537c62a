#include "experiments/compare_replicas.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job_plan.h"
#include "experiments/arm_mode.h"
#include "experiments/planned_buckets.h"
#include "google/protobuf/util/message_differencer.h"

namespace psring {
namespace {

// With two workers the sum has two terms, whose order does not matter.
bool AddsInRingOrder(const JobSpec& spec) {
  if (spec.workers() <= 2) return true;
  if (spec.arm().has_ring()) {
    const std::vector<PlannedBucket> buckets =
        PlannedBuckets(spec, PlanJob(spec).buckets);
    return std::all_of(buckets.begin(), buckets.end(), [](const PlannedBucket& bucket) {
      return bucket.algorithm == RingMode::RING;
    });
  }
  return !spec.arm().has_parameter_server() ||
         spec.arm().parameter_server().sync().order() == Sync::RING;
}

bool MustBeEqual(const JobSpec& a, const JobSpec& b) {
  for (const JobSpec* const spec : {&a, &b}) {
    if (!InLockstep(*spec) || !AddsInRingOrder(*spec)) return false;
  }
  return a.workers() == b.workers() &&
         google::protobuf::util::MessageDifferencer::Equals(a.experiment().training(),
                                                            b.experiment().training());
}

}  // namespace

void CompareReplicas(const std::vector<JobSpec>& specs, std::vector<ArmResult>* runs) {
  for (size_t i = 1; i < runs->size(); ++i) {
    for (size_t reference = 0; reference < i; ++reference) {
      if (!MustBeEqual(specs[i], specs[reference])) continue;
      // Of a run that did not come to its end nothing is certified.
      if (!(*runs)[i].error.empty() || !(*runs)[reference].error.empty()) continue;
      Certificate& certificate = (*runs)[i].replica;
      if (certificate.verdict == Verdict::kFail) break;
      const std::string& name = (*runs)[reference].name;
      int64_t compared = 0;
      for (const auto& [step, digest] : (*runs)[i].digests) {
        const auto it = (*runs)[reference].digests.find(step);
        if (it == (*runs)[reference].digests.end()) continue;
        ++compared;
        if (it->second != digest) {
          certificate = {.verdict = Verdict::kFail,
                         .why = absl::StrFormat("after step %d the digest is %016x, that "
                                                "of arm %s %016x",
                                                step, digest, name, it->second)};
          break;
        }
      }
      if (certificate.verdict != Verdict::kFail && compared > 0) {
        certificate = {
            .verdict = Verdict::kPass,
            .why = absl::StrCat(certificate.why,
                                certificate.verdict == Verdict::kPass ? ", and to arm "
                                                                      : "; equal to arm ",
                                name, " at ", compared)};
      }
      break;
    }
  }
}

}  // namespace psring
