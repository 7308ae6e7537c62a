#include "experiments/compare_replicas.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job_plan.h"
#include "common/layout.h"
#include "common/wire_type.h"
#include "experiments/arm_mode.h"
#include "experiments/planned_buckets.h"
#include "experiments/text.h"
#include "google/protobuf/util/message_differencer.h"

namespace psring {
namespace {

// With two workers a sum has two terms, whose order does not matter; of made-up gradients
// no order does, because their sums are exact (worker/synthetic_model.h).
bool EveryOrderGivesTheSameBits(const JobSpec& spec) {
  constexpr int kMostRanksOfExactSums = 1000;
  return spec.workers() <= 2 || (spec.experiment().compute().has_emulated() &&
                                 spec.workers() <= kMostRanksOfExactSums);
}

bool AddsInRingOrder(const JobSpec& spec) {
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

// The order round the ring depends on where in its bucket an element is.
bool AddInTheSameOrder(const JobSpec& a, const JobSpec& b) {
  const BucketPlan of_a = PlanJob(a).buckets;
  const BucketPlan of_b = PlanJob(b).buckets;
  return AddsInRingOrder(a) && AddsInRingOrder(b) &&
         std::ranges::equal(of_a.buckets, of_b.buckets, {}, &Bucket::range,
                            &Bucket::range);
}

bool MustBeEqual(const JobSpec& a, const JobSpec& b) {
  for (const JobSpec* const spec : {&a, &b}) {
    if (!InLockstep(*spec) || !WireType(spec->arm().wire()).is_fp32()) return false;
  }
  // What they continue from must be the same.
  return a.workers() == b.workers() && a.restored().folder() == b.restored().folder() &&
         google::protobuf::util::MessageDifferencer::Equals(a.experiment().training(),
                                                            b.experiment().training()) &&
         ((EveryOrderGivesTheSameBits(a) && EveryOrderGivesTheSameBits(b)) ||
          AddInTheSameOrder(a, b));
}

// Of a run whose ranks differ, none of them with the majority: who has the parameters of
// a run that must be equal and whose ranks do not differ.
void CompareRanks(const std::vector<JobSpec>& specs, size_t i,
                  std::vector<ArmResult>* runs) {
  ArmResult& run = (*runs)[i];
  if (!run.difference || run.difference->majority) return;
  for (size_t other = 0; other < runs->size(); ++other) {
    const ArmResult& reference = (*runs)[other];
    if (other == i || reference.difference || !reference.error.empty()) continue;
    const auto right = reference.digests.find(run.difference->step);
    if (right == reference.digests.end() || !MustBeEqual(specs[i], specs[other]))
      continue;
    std::vector<std::string> equal, wrong;
    for (size_t rank = 0; rank < run.difference->digests.size(); ++rank) {
      const bool is_equal = run.difference->digests[rank] == right->second;
      (is_equal ? equal : wrong).push_back(absl::StrCat(rank));
    }
    const std::string name = absl::StrCat("; arm ", reference.name);
    if (equal.empty()) {
      absl::StrAppend(&run.replica.why, name, " is equal to none of them");
    } else {
      absl::StrAppend(&run.replica.why, name, " is equal to ",
                      Enumerate("rank", equal, equal.size()), ": wrong is ",
                      Enumerate("rank", wrong, wrong.size()));
    }
    return;
  }
}

}  // namespace

void CompareReplicas(const std::vector<JobSpec>& specs, std::vector<ArmResult>* runs) {
  for (size_t i = 1; i < runs->size(); ++i) {
    for (size_t reference = 0; reference < i; ++reference) {
      if (!MustBeEqual(specs[i], specs[reference])) continue;
      // Its ranks tell by themselves that something is wrong, and not which is right.
      if ((*runs)[reference].difference) continue;
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
  for (size_t i = 0; i < runs->size(); ++i) CompareRanks(specs, i, runs);
}

}  // namespace psring
