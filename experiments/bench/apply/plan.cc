#include "experiments/bench/apply/plan.h"

#include <algorithm>
#include <utility>

#include "common/optimizer.h"
#include "common/slot_plan.h"
#include "experiments/optimizer_config.h"
#include "glog/logging.h"

namespace psring {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);
// Of a slot beside its floats: itself, its round, its name in lists. An upper bound.
constexpr int64_t kSlotBytes = 4096;

int64_t DividedUp(int64_t number, int64_t divisor) {
  return number / divisor + (number % divisor > 0 ? 1 : 0);
}

// Every kind, in the order of rows. Rates are such that values stay of a size. What
// divides by the size of gradients has an epsilon of about that size: else a step would
// hardly depend on them, and a wrong sum would not be found.
std::vector<std::pair<std::string, Optimizer>> Optimizers() {
  constexpr float kRate = 0.01f;
  constexpr float kDecay = 1e-4f;
  constexpr float kEpsilon = 0.1f;
  const std::vector<std::string> names = {"sgd",  "momentum", "nesterov",
                                          "adam", "adamw",    "adagrad"};
  std::vector<std::pair<std::string, Optimizer>> all;
  for (const std::string& name : names) {
    Optimizer optimizer;
    if (name == "adam" || name == "adamw") {
      Adam& adam =
          name == "adam" ? *optimizer.mutable_adam() : *optimizer.mutable_adamw();
      adam.set_learning_rate(kRate);
      adam.set_weight_decay(kDecay);
      adam.set_epsilon(kEpsilon);
    } else if (name == "adagrad") {
      optimizer.mutable_adagrad()->set_learning_rate(kRate);
      optimizer.mutable_adagrad()->set_weight_decay(kDecay);
      optimizer.mutable_adagrad()->set_epsilon(kEpsilon);
    } else {
      Sgd& sgd = *optimizer.mutable_sgd();
      sgd.set_learning_rate(kRate);
      sgd.set_weight_decay(kDecay);
      if (name != "sgd") sgd.set_momentum(0.9f);
      sgd.set_nesterov(name == "nesterov");
    }
    FillOptimizerDefaults(&optimizer);
    all.emplace_back(name, std::move(optimizer));
  }
  return all;
}

int64_t StateBytes(const ApplyCase& row) {
  return row.count * OptimizerStateBytesPerElement(ApplyOptimizer(row.optimizer));
}

}  // namespace

std::vector<std::string> ApplyOptimizerNames() {
  std::vector<std::string> names;
  for (const auto& [name, optimizer] : Optimizers()) names.push_back(name);
  return names;
}

Optimizer ApplyOptimizer(const std::string& name) {
  for (auto& [known, optimizer] : Optimizers()) {
    if (known == name) return optimizer;
  }
  LOG(FATAL) << "no optimizer " << name;
}

int64_t BucketsFor(const ApplyCase& row, int64_t working_set_bytes) {
  const int64_t bucket_bytes =
      row.size_bytes() * (row.contributions + 1) + StateBytes(row);
  return std::max<int64_t>(1, DividedUp(working_set_bytes, bucket_bytes));
}

int64_t MovedBytes(const ApplyCase& row) {
  return row.size_bytes() * (row.contributions + 2) + 2 * StateBytes(row);
}

int64_t TriadCount(const ApplyCase& row) {
  return DividedUp(MovedBytes(row), kTriadBytesPerElement);
}

int64_t MemoryBytes(const ApplyCase& row) {
  const int64_t slots = DividedUp(row.size_bytes(), kMaxSlotBytes);
  const int64_t slot_bytes = DividedUp(row.count, slots) * kFloatBytes;
  const int64_t received = slots * ReceivedBytes(row.pieces, slot_bytes);
  const int64_t triad = TriadCount(row) * kTriadBytesPerElement;
  return row.buckets * (received * row.contributions + row.size_bytes() +
                        StateBytes(row) + slots * kSlotBytes + triad);
}

}  // namespace psring
