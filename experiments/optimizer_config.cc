#include "experiments/optimizer_config.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/schedule.h"
#include "common/status_macros.h"

namespace psring {
namespace {

// The checks of one optimizer. Comparisons are written so that not-a-number fails them.
class Checker {
 public:
  Checker(const Optimizer& optimizer, const std::string& path,
          const FieldOrigins& origins)
      : optimizer_(optimizer), path_(path), origins_(origins) {}

  absl::Status Check() const {
    switch (optimizer_.kind_case()) {
      case Optimizer::kSgd:
        RETURN_IF_ERROR(CheckSgd(optimizer_.sgd()));
        break;
      case Optimizer::kAdam:
        RETURN_IF_ERROR(CheckAdam("adam", optimizer_.adam()));
        break;
      case Optimizer::kAdamw:
        RETURN_IF_ERROR(CheckAdam("adamw", optimizer_.adamw()));
        break;
      case Optimizer::kAdagrad:
        RETURN_IF_ERROR(CheckAdagrad(optimizer_.adagrad()));
        break;
      case Optimizer::KIND_NOT_SET:
        return origins_.Error(
            path_, "missing",
            MemberNames(*Optimizer::descriptor()->FindOneofByName("kind")));
    }
    return CheckSchedule(optimizer_.schedule());
  }

 private:
  absl::Status CheckSgd(const Sgd& sgd) const {
    RETURN_IF_ERROR(Positive("sgd.learning_rate", sgd.learning_rate()));
    RETURN_IF_ERROR(Fraction("sgd.momentum", sgd.momentum()));
    RETURN_IF_ERROR(NotNegative("sgd.weight_decay", sgd.weight_decay()));
    if (sgd.nesterov() && sgd.momentum() == 0) {
      return origins_.Error(Path("sgd.nesterov"), "is true without momentum",
                            "true with a momentum above 0, or false");
    }
    return absl::OkStatus();
  }

  absl::Status CheckAdam(const std::string& name, const Adam& adam) const {
    RETURN_IF_ERROR(Positive(name + ".learning_rate", adam.learning_rate()));
    RETURN_IF_ERROR(Fraction(name + ".beta1", adam.beta1()));
    RETURN_IF_ERROR(Fraction(name + ".beta2", adam.beta2()));
    if (adam.has_epsilon()) RETURN_IF_ERROR(Positive(name + ".epsilon", adam.epsilon()));
    return NotNegative(name + ".weight_decay", adam.weight_decay());
  }

  absl::Status CheckAdagrad(const Adagrad& adagrad) const {
    RETURN_IF_ERROR(Positive("adagrad.learning_rate", adagrad.learning_rate()));
    if (adagrad.has_epsilon()) {
      RETURN_IF_ERROR(Positive("adagrad.epsilon", adagrad.epsilon()));
    }
    RETURN_IF_ERROR(NotNegative("adagrad.weight_decay", adagrad.weight_decay()));
    return NotNegative("adagrad.initial_accumulator", adagrad.initial_accumulator());
  }

  absl::Status CheckSchedule(const Schedule& schedule) const {
    RETURN_IF_ERROR(AtLeast("schedule.warmup_steps", schedule.warmup_steps(), 0));
    if (schedule.has_cosine()) {
      const std::string steps = "schedule.cosine.steps";
      if (origins_.Has(Path(steps))) {
        RETURN_IF_ERROR(AtLeast(steps, schedule.cosine().steps(), 1));
      }
      const double factor = schedule.cosine().final_factor();
      if (!(factor >= 0 && factor <= 1)) {
        return Wrong("schedule.cosine.final_factor", factor, "0 to 1");
      }
    }
    if (schedule.has_step_decay()) {
      RETURN_IF_ERROR(
          AtLeast("schedule.step_decay.every", schedule.step_decay().every(), 1));
      RETURN_IF_ERROR(
          Positive("schedule.step_decay.factor", schedule.step_decay().factor()));
    }
    return absl::OkStatus();
  }

  std::string Path(const std::string& field) const {
    return absl::StrCat(path_, ".", field);
  }
  // What is not written has a value that is allowed, or is missing.
  template <typename Number>
  absl::Status Wrong(const std::string& field, Number value,
                     const std::string& allowed) const {
    return origins_.Error(
        Path(field), origins_.Has(Path(field)) ? absl::StrCat("is ", value) : "missing",
        allowed);
  }
  absl::Status Positive(const std::string& field, double value) const {
    if (value > 0 && std::isfinite(value)) return absl::OkStatus();
    return Wrong(field, value, "a finite number above 0");
  }
  absl::Status NotNegative(const std::string& field, double value) const {
    if (value >= 0 && std::isfinite(value)) return absl::OkStatus();
    return Wrong(field, value, "a finite number of at least 0");
  }
  absl::Status Fraction(const std::string& field, double value) const {
    if (value >= 0 && value < 1) return absl::OkStatus();
    return Wrong(field, value, "at least 0 and below 1");
  }
  absl::Status AtLeast(const std::string& field, int64_t value, int64_t smallest) const {
    if (value >= smallest) return absl::OkStatus();
    return Wrong(field, value, absl::StrCat("at least ", smallest));
  }

  const Optimizer& optimizer_;
  const std::string& path_;
  const FieldOrigins& origins_;
};

void FillAdamDefaults(Adam* adam) {
  if (!adam->has_beta1()) adam->set_beta1(0.9f);
  if (!adam->has_beta2()) adam->set_beta2(0.999f);
  if (!adam->has_epsilon()) adam->set_epsilon(1e-8f);
}

std::string DescribeAfterWarmup(const Schedule& schedule) {
  switch (schedule.after_warmup_case()) {
    case Schedule::kCosine: {
      const Schedule::Cosine& cosine = schedule.cosine();
      return absl::StrFormat("a cosine to %.6g times that %s", cosine.final_factor(),
                             cosine.steps() > 0
                                 ? absl::StrFormat("over %d steps", cosine.steps())
                                 : "at the end of the run");
    }
    case Schedule::kStepDecay:
      return absl::StrFormat("times %.6g every %d steps", schedule.step_decay().factor(),
                             schedule.step_decay().every());
    case Schedule::kConstant:
    case Schedule::AFTER_WARMUP_NOT_SET:
      break;
  }
  return "";
}

}  // namespace

absl::Status CheckOptimizer(const Optimizer& optimizer, const std::string& path,
                            const FieldOrigins& origins) {
  return Checker(optimizer, path, origins).Check();
}

void FillOptimizerDefaults(Optimizer* optimizer) {
  if (optimizer->has_adam()) FillAdamDefaults(optimizer->mutable_adam());
  if (optimizer->has_adamw()) FillAdamDefaults(optimizer->mutable_adamw());
  if (optimizer->has_adagrad() && !optimizer->adagrad().has_epsilon()) {
    optimizer->mutable_adagrad()->set_epsilon(1e-10f);
  }
  Schedule* const schedule = optimizer->mutable_schedule();
  if (schedule->after_warmup_case() == Schedule::AFTER_WARMUP_NOT_SET) {
    schedule->mutable_constant();
  }
}

std::string DescribeOptimizer(const Optimizer& optimizer) {
  const google::protobuf::FieldDescriptor* const kind =
      Optimizer::descriptor()->FindFieldByNumber(optimizer.kind_case());
  const Schedule& schedule = optimizer.schedule();
  std::string text = absl::StrFormat("%s, learning rate %.6g", kind->name(),
                                     BaseLearningRate(optimizer));
  if (schedule.warmup_steps() > 0) {
    absl::StrAppendFormat(&text, " after a warm-up of %d steps", schedule.warmup_steps());
  }
  const std::string after = DescribeAfterWarmup(schedule);
  return after.empty() ? text : absl::StrCat(text, ", then ", after);
}

}  // namespace psring
