#include "experiments/bench/apply/reference.h"

#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/schedule.h"
#include "experiments/bench/apply/inputs.h"
#include "glog/logging.h"

namespace psring {
namespace {

struct Element {
  float parameter = 0;
  float first = 0;  // As SliceOptimizer's members.
  float second = 0;
};

void ApplySgd(const Sgd& sgd, const StepConstants& constants, float mean, Element& e) {
  const float g = mean + sgd.weight_decay() * e.parameter;
  float step = g;
  if (sgd.momentum() != 0) {
    e.first = sgd.momentum() * e.first + g;
    step = sgd.nesterov() ? g + sgd.momentum() * e.first : e.first;
  }
  e.parameter -= constants.learning_rate * step;
}

void ApplyAdam(const Adam& adam, bool decoupled, const StepConstants& constants,
               float mean, Element& e) {
  const float decay = adam.weight_decay();
  const float g = decoupled ? mean : mean + decay * e.parameter;
  e.first = adam.beta1() * e.first + (1 - adam.beta1()) * g;
  e.second = adam.beta2() * e.second + (1 - adam.beta2()) * (g * g);
  const float kept =
      decoupled ? (1 - constants.learning_rate * decay) * e.parameter : e.parameter;
  e.parameter =
      kept - constants.adam_step_size * e.first /
                 (constants.adam_root_scale * std::sqrt(e.second) + adam.epsilon());
}

void ApplyAdagrad(const Adagrad& adagrad, const StepConstants& constants, float mean,
                  Element& e) {
  const float g = mean + adagrad.weight_decay() * e.parameter;
  e.second += g * g;
  e.parameter -= constants.learning_rate * g / (std::sqrt(e.second) + adagrad.epsilon());
}

}  // namespace

ApplyReference::ApplyReference(const ApplyCase& row, Range bucket, int64_t updates)
    : workers_(row.contributions),
      settings_(ApplyOptimizer(row.optimizer)),
      bucket_(bucket) {
  for (int64_t update = 0; update < updates; ++update) {
    // Without a schedule the length of the run does not matter.
    constants_.push_back(StepConstantsAt(settings_, updates, update));
  }
}

// A ring of N ranks cuts a bucket into N chunks, of which the first are one element
// longer where it does not come out even, and sums chunk c from rank c + 1 round to
// rank c.
float ApplyReference::MeanAt(int64_t element) const {
  int64_t end = bucket_.begin;
  int chunk = -1;
  while (element >= end) {
    ++chunk;
    CHECK_LT(chunk, workers_);
    end += bucket_.count / workers_ + (chunk < bucket_.count % workers_ ? 1 : 0);
  }
  float sum = ContributionAt((chunk + 1) % workers_, element);
  for (int term = 1; term < workers_; ++term) {
    sum += ContributionAt((chunk + 1 + term) % workers_, element);
  }
  return sum * (1.0f / static_cast<float>(workers_));
}

float ApplyReference::At(int64_t element) const {
  const float mean = MeanAt(element);
  Element e{.parameter = ParameterAt(element)};
  if (settings_.has_adagrad()) e.second = settings_.adagrad().initial_accumulator();
  for (const StepConstants& constants : constants_) {
    switch (settings_.kind_case()) {
      case Optimizer::kSgd:
        ApplySgd(settings_.sgd(), constants, mean, e);
        break;
      case Optimizer::kAdam:
        ApplyAdam(settings_.adam(), /*decoupled=*/false, constants, mean, e);
        break;
      case Optimizer::kAdamw:
        ApplyAdam(settings_.adamw(), /*decoupled=*/true, constants, mean, e);
        break;
      case Optimizer::kAdagrad:
        ApplyAdagrad(settings_.adagrad(), constants, mean, e);
        break;
      case Optimizer::KIND_NOT_SET:
        LOG(FATAL) << "an optimizer without a kind";
    }
  }
  return e.parameter;
}

WrongElements ApplyReference::Compare(int64_t begin,
                                      std::span<const float> parameters) const {
  WrongElements wrong;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const int64_t element = begin + static_cast<int64_t>(i);
    const float expected = At(element);
    if (std::bit_cast<uint32_t>(parameters[i]) == std::bit_cast<uint32_t>(expected)) {
      continue;
    }
    if (wrong.count++ == 0) {
      wrong.first =
          absl::StrCat("element ", element - bucket_.begin, " of a bucket is ",
                       absl::StrFormat("%.9g and not %.9g", parameters[i], expected),
                       " after ", constants_.size(), " updates");
    }
  }
  return wrong;
}

}  // namespace psring
