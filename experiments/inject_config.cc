#include "experiments/inject_config.h"

#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "common/job_plan.h"
#include "common/status_macros.h"

namespace psring {
namespace {

std::string PathOf(int flip) { return absl::StrCat("inject.flip_bit[", flip, "]"); }

}  // namespace

absl::Status CheckFlips(const Experiment& experiment, int64_t ranks,
                        const FieldOrigins& origins) {
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t>, int> seen;
  for (int i = 0; i < experiment.inject().flip_bit_size(); ++i) {
    const FlipBit& flip = experiment.inject().flip_bit(i);
    const std::string path = PathOf(i);
    const auto wrong = [&](const char* field, int64_t value, const std::string& allowed) {
      return origins.Error(absl::StrCat(path, ".", field), absl::StrCat("is ", value),
                           allowed);
    };
    if (flip.rank() < 0 || flip.rank() >= ranks) {
      return wrong("rank", flip.rank(),
                   absl::StrCat("0 to ", ranks - 1, ", the ranks that all arms have"));
    }
    const Training& training = experiment.training();
    if (training.has_steps() && (flip.step() < 0 || flip.step() >= training.steps())) {
      return wrong("step", flip.step(),
                   absl::StrCat("0 to ", training.steps() - 1, ", the steps of the run"));
    }
    if (flip.step() < 0) return wrong("step", flip.step(), "at least 0");
    if (flip.element() < 0) return wrong("element", flip.element(), "at least 0");
    if (flip.bit() < 0 || flip.bit() > 31) return wrong("bit", flip.bit(), "0 to 31");
    const auto [first, is_new] =
        seen.emplace(std::tuple(flip.rank(), flip.step(), flip.element(), flip.bit()), i);
    if (is_new) continue;
    return origins.Error(path, absl::StrCat("undoes ", PathOf(first->second)),
                         "each bit once in a step of a rank");
  }
  return absl::OkStatus();
}

absl::Status CheckFlips(const JobSpec& spec) {
  const int64_t parameters = PlanJob(spec).layout.count();
  for (int i = 0; i < spec.experiment().inject().flip_bit_size(); ++i) {
    const FlipBit& flip = spec.experiment().inject().flip_bit(i);
    const auto check = [&](const char* field, int64_t value, int64_t count,
                           const char* what) {
      if (value < count) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat(PathOf(i), ".", field, ": is ",
                                                     value, "; allowed: 0 to ", count - 1,
                                                     ", the ", what));
    };
    if (!spec.arm().has_local()) {
      RETURN_IF_ERROR(check("step", flip.step(), spec.steps(), "steps of the run"));
    }
    RETURN_IF_ERROR(
        check("element", flip.element(), parameters, "parameters of the model"));
  }
  return absl::OkStatus();
}

std::string DescribeFlip(const FlipBit& flip) {
  return absl::StrCat("bit ", flip.bit(), " of parameter ", flip.element(),
                      " flips after step ", flip.step());
}

}  // namespace psring
