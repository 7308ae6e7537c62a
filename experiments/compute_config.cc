#include "experiments/compute_config.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/liveness.h"
#include "common/status_macros.h"

namespace psring {
namespace {

// All tensors are described to every process.
constexpr int64_t kMostTensors = 100'000;

// The checks of one experiment. Comparisons are written so that not-a-number fails them.
class Checker {
 public:
  Checker(const Experiment& experiment, int64_t ranks, const FieldOrigins& origins)
      : experiment_(experiment), ranks_(ranks), origins_(origins) {}

  absl::Status Check() const {
    const Compute& compute = experiment_.compute();
    if (HasShapesAlone(experiment_.model()) && !compute.has_emulated()) {
      return origins_.Error(ModelPath(), "has nothing to compute",
                            "with compute { emulated { } }, else mlp");
    }
    if (compute.has_padded()) return CheckPadded(compute.padded());
    if (compute.has_emulated()) {
      RETURN_IF_ERROR(CheckEmulated(compute.emulated()));
      return CheckTrainingOfNothing();
    }
    return absl::OkStatus();
  }

 private:
  std::string ModelPath() const {
    return experiment_.model().has_tensors() ? "model.tensors" : "model.inventory";
  }

  absl::Status CheckPadded(const Compute::Padded& padded) const {
    const std::string path = "compute.padded.step_ms";
    if (!(padded.step_ms() > 0 && std::isfinite(padded.step_ms()))) {
      return Number(path, padded.step_ms(), "a finite number above 0");
    }
    return CheckStall(path, padded.step_ms());
  }

  absl::Status CheckEmulated(const Compute::Emulated& emulated) const {
    const std::string path = "compute.emulated";
    for (const auto& [name, ms] : {std::pair(".forward_ms", emulated.forward_ms()),
                                   std::pair(".backward_ms", emulated.backward_ms())}) {
      if (ms >= 0 && std::isfinite(ms)) continue;
      return Number(path + name, ms, "a finite number of at least 0");
    }
    if (!(emulated.jitter() >= 0 && emulated.jitter() < 1)) {
      return Number(path + ".jitter", emulated.jitter(), "at least 0 and below 1");
    }
    std::set<int64_t> seen;
    double slowest = 1;
    for (int i = 0; i < emulated.rank_factor_size(); ++i) {
      const RankFactor& own = emulated.rank_factor(i);
      const std::string at = absl::StrCat(path, ".rank_factor[", i, "]");
      if (own.rank() < 0 || own.rank() >= ranks_) {
        return origins_.Error(
            at + ".rank", absl::StrCat("is ", own.rank()),
            absl::StrCat("0 to ", ranks_ - 1, ", the ranks that all arms have"));
      }
      if (!seen.insert(own.rank()).second) {
        return origins_.Error(at + ".rank",
                              absl::StrCat("rank ", own.rank(), " is named twice"),
                              "each rank once");
      }
      if (!(own.factor() > 0 && std::isfinite(own.factor()))) {
        return Number(at + ".factor", own.factor(), "a finite number above 0");
      }
      slowest = std::max(slowest, own.factor());
    }
    return CheckStall(path, (emulated.forward_ms() + emulated.backward_ms()) *
                                (1 + emulated.jitter()) * slowest);
  }

  // What learns nothing has nothing to be evaluated.
  absl::Status CheckTrainingOfNothing() const {
    const Training& training = experiment_.training();
    if (training.target_accuracy() != 0) {
      return origins_.Error("training.target_accuracy",
                            "with emulated compute nothing is learned", "leaving it out");
    }
    if (training.evaluation_interval() != 0) {
      return origins_.Error("training.evaluation_interval",
                            "with emulated compute nothing is learned", "leaving it out");
    }
    if (!HasShapesAlone(experiment_.model())) return absl::OkStatus();
    if (experiment_.data().kind_case() != DataSettings::KIND_NOT_SET) {
      return origins_.Error("data", absl::StrCat(ModelPath(), " looks at no data"),
                            "leaving it out");
    }
    if (training.has_epochs()) {
      return origins_.Error("training.epochs", "there is no data set to pass over",
                            "steps");
    }
    return absl::OkStatus();
  }

  // The slowest worker's step; longer ones would be taken for a stall.
  absl::Status CheckStall(const std::string& path, double step_ms) const {
    double slowest = 1;
    for (const SlowWorker& slow : experiment_.inject().slow_worker()) {
      slowest = std::max(slowest, slow.factor());
    }
    const absl::Duration step = absl::Milliseconds(step_ms * slowest);
    const absl::Duration stall = SettingsOf(experiment_.liveness()).stall;
    if (step < stall) return absl::OkStatus();
    return origins_.Error(
        path, absl::StrCat("a step takes up to ", absl::FormatDuration(step)),
        absl::StrCat("less than liveness.stall_seconds, ", absl::FormatDuration(stall)));
  }

  absl::Status Number(const std::string& path, double value,
                      const std::string& allowed) const {
    return origins_.Error(
        path, origins_.Has(path) ? absl::StrCat("is ", value) : "missing", allowed);
  }

  const Experiment& experiment_;
  const int64_t ranks_;
  const FieldOrigins& origins_;
};

}  // namespace

bool HasShapesAlone(const ModelSettings& model) {
  return model.has_tensors() || model.has_inventory();
}

absl::Status CheckCompute(const Experiment& experiment, int64_t ranks,
                          const FieldOrigins& origins) {
  return Checker(experiment, ranks, origins).Check();
}

absl::Status CheckTensorList(const TensorList& tensors, const FieldOrigins& origins) {
  const std::string path = "model.tensors";
  if (tensors.elements().empty()) {
    return origins.Error(path + ".elements", "missing", "a list of numbers of elements");
  }
  int64_t elements = 0;
  for (int i = 0; i < tensors.elements_size(); ++i) {
    const int64_t own = tensors.elements(i);
    if (own < 1 || own > kMostElements - elements) {
      return origins.Error(
          absl::StrCat(path, ".elements[", i, "]"), absl::StrCat("is ", own),
          absl::StrCat("at least 1, and at most ", kMostElements, " over all tensors"));
    }
    elements += own;
  }
  const std::string repeat = path + ".repeat";
  const int64_t most =
      std::min(kMostElements / elements, kMostTensors / tensors.elements_size());
  if (most < 1) {
    return origins.Error(path + ".elements",
                         absl::StrCat("has ", tensors.elements_size(), " tensors"),
                         absl::StrCat("at most ", kMostTensors));
  }
  if (origins.Has(repeat) && (tensors.repeat() < 1 || tensors.repeat() > most)) {
    return origins.Error(repeat, absl::StrCat("is ", tensors.repeat()),
                         absl::StrCat("1 to ", most));
  }
  return absl::OkStatus();
}

absl::Status CheckSizeToRun(const JobSpec& spec) {
  const ModelSettings& model = spec.experiment().model();
  if (!model.has_inventory()) return absl::OkStatus();
  int64_t elements = 0;
  for (const TensorSpec& tensor : spec.tensors()) {
    int64_t own = 1;
    for (const int64_t size : tensor.shape()) own *= size;
    elements += own;
  }
  if (elements <= kMostElements) return absl::OkStatus();
  const int64_t divisor = model.inventory().divisor();
  const int64_t enough = (elements * divisor + kMostElements - 1) / kMostElements;
  return absl::InvalidArgumentError(
      absl::StrCat("model.inventory: ", model.inventory().name(), " has ", elements,
                   " elements; allowed: to be trained at most ", kMostElements,
                   ", as with a divisor of ", enough, "; --dry-run takes any"));
}

void FillComputeDefaults(Experiment* experiment) {
  if (experiment->compute().kind_case() == Compute::KIND_NOT_SET) {
    experiment->mutable_compute()->mutable_real();
  }
  ModelSettings& model = *experiment->mutable_model();
  if (model.has_tensors() && model.tensors().repeat() == 0) {
    model.mutable_tensors()->set_repeat(1);
  }
  if (model.has_inventory() && model.inventory().divisor() == 0) {
    model.mutable_inventory()->set_divisor(1);
  }
}

std::string DescribeCompute(const Compute& compute) {
  switch (compute.kind_case()) {
    case Compute::kPadded:
      return absl::StrFormat("padded to %.6g ms", compute.padded().step_ms());
    case Compute::kEmulated: {
      const Compute::Emulated& emulated = compute.emulated();
      std::string text = absl::StrFormat("emulated, %.6g ms forward and %.6g ms backward",
                                         emulated.forward_ms(), emulated.backward_ms());
      if (emulated.jitter() > 0) {
        absl::StrAppendFormat(&text, ", jitter %.4g %%", 100 * emulated.jitter());
      }
      for (const RankFactor& own : emulated.rank_factor()) {
        absl::StrAppendFormat(&text, ", worker %d times %.4g", own.rank(), own.factor());
      }
      return text;
    }
    case Compute::kReal:
    case Compute::KIND_NOT_SET:
      break;
  }
  return "real";
}

ParameterLayout TensorListLayout(const TensorList& tensors) {
  ParameterLayout layout;
  for (int64_t i = 0; i < tensors.repeat(); ++i) {
    for (const int64_t elements : tensors.elements()) {
      layout.Add(absl::StrCat("tensor", layout.tensors().size()), {elements});
    }
  }
  return layout;
}

}  // namespace psring
