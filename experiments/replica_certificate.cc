#include "experiments/replica_certificate.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "common/job_plan.h"
#include "experiments/arm_mode.h"
#include "experiments/text.h"

namespace psring {
namespace {

// More names than this are counted.
constexpr size_t kMostNamed = 4;

std::optional<uint64_t> MajorityOf(const std::vector<uint64_t>& digests) {
  std::map<uint64_t, size_t> ranks;
  for (const uint64_t digest : digests) {
    if (2 * ++ranks[digest] > digests.size()) return digest;
  }
  return std::nullopt;
}

// ", in tensor layer0.weight"; nothing where it was not recorded.
std::string InTensors(int64_t step, const JobSpec& spec, const ArmRecords& records) {
  std::set<int> unequal;
  for (const TensorDigest& digest : records.tensor_digests) {
    if (digest.step == step && digest.tensor < spec.tensors_size()) {
      unequal.insert(digest.tensor);
    }
  }
  if (unequal.empty()) return "";
  std::vector<std::string> names;
  for (const int tensor : unequal) names.push_back(spec.tensors(tensor).name());
  return absl::StrCat(", in ", Enumerate("tensor", names, kMostNamed));
}

}  // namespace

std::optional<ReplicaDifference> FindReplicaDifference(const JobSpec& spec,
                                                       const ArmRecords& records) {
  const auto workers = static_cast<size_t>(spec.workers());
  if (!InLockstep(spec) || workers < 2 || records.steps.size() != workers) {
    return std::nullopt;
  }
  size_t steps = records.steps.front().size();
  for (const auto& rank : records.steps) steps = std::min(steps, rank.size());
  for (size_t step = 0; step < steps; ++step) {
    std::vector<uint64_t> digests;
    for (const auto& rank : records.steps) {
      if (rank[step].has_parameter_digest()) {
        digests.push_back(rank[step].parameter_digest());
      }
    }
    if (digests.size() < workers) continue;
    if (std::all_of(digests.begin(), digests.end(),
                    [&](uint64_t digest) { return digest == digests.front(); })) {
      continue;
    }
    return ReplicaDifference{.step = FirstStepOf(spec, 0) + static_cast<int64_t>(step),
                             .digests = digests,
                             .majority = MajorityOf(digests)};
  }
  return std::nullopt;
}

Certificate FailOf(const ReplicaDifference& difference, const JobSpec& spec,
                   const ArmRecords& records) {
  std::vector<std::string> ranks;
  for (size_t rank = 0; rank < difference.digests.size(); ++rank) {
    if (difference.digests[rank] != difference.majority) {
      ranks.push_back(absl::StrCat(rank));
    }
  }
  std::string why = Enumerate("rank", ranks, kMostNamed);
  if (!difference.majority) {
    absl::StrAppend(&why, " differ");
  } else {
    absl::StrAppend(&why, ranks.size() == 1 ? " differs" : " differ", " from the others");
  }
  absl::StrAppend(&why, " at step ", difference.step,
                  InTensors(difference.step, spec, records));
  return {.verdict = Verdict::kFail, .why = why};
}

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
    const int64_t expected = spec.steps() - FirstStepOf(spec, rank);
    if (steps == expected) continue;
    return {
        .verdict = Verdict::kFail,
        .why = absl::StrCat("worker ", rank, " made ", steps, " steps of ", expected)};
  }
  if (const auto difference = FindReplicaDifference(spec, records)) {
    return FailOf(*difference, spec, records);
  }
  const std::vector<StepRecord>& first = records.steps[0];
  int64_t checked = 0;
  for (size_t step = 0; step < first.size(); ++step) {
    for (size_t rank = 1; rank < records.steps.size(); ++rank) {
      const bool one = first[step].has_parameter_digest();
      if (one == records.steps[rank][step].has_parameter_digest()) continue;
      return {.verdict = Verdict::kFail,
              .why = absl::StrCat("rank ", one ? 0 : rank, " has checked step ",
                                  FirstStepOf(spec, 0) + static_cast<int64_t>(step),
                                  ", rank ", one ? rank : 0, " has not")};
    }
    checked += first[step].has_parameter_digest();
  }
  return {.verdict = Verdict::kPass,
          .why = absl::StrCat(records.steps.size(), " ranks equal at ", checked,
                              " checked steps")};
}

}  // namespace psring
