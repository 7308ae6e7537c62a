#include "experiments/figures/memory_shares.h"

#include <algorithm>
#include <utility>

#include "common/job_plan.h"
#include "common/layout.h"
#include "experiments/figures/figure_model.h"
#include "experiments/memory_budget.h"
#include "glog/logging.h"
#include "proto/coordinator.pb.h"
#include "proto/experiment.pb.h"

namespace psring {
namespace {

int64_t BytesOf(const ProcessBudget& budget) {
  int64_t bytes = 0;
  for (const PurposeBudget& purpose : budget.purposes) bytes += purpose.bytes;
  return bytes;
}

std::vector<std::pair<std::string, Optimizer>> Optimizers() {
  Optimizer sgd;
  sgd.mutable_sgd();
  Optimizer momentum;
  momentum.mutable_sgd()->set_momentum(0.9f);
  Optimizer adam;
  adam.mutable_adam();
  return {{"SGD", sgd}, {"momentum", momentum}, {"Adam", adam}};
}

}  // namespace

const std::vector<MixedPrecisionPart>& MixedPrecisionParts() {
  static const std::vector<MixedPrecisionPart>* const parts =
      new std::vector<MixedPrecisionPart>{
          {.name = "parameters", .bytes = 2, .shared_from = 3},
          {.name = "gradients", .bytes = 2, .shared_from = 2},
          {.name = "fp32 copy", .bytes = 4, .shared_from = 1},
          {.name = "momentum", .bytes = 4, .shared_from = 1},
          {.name = "variance", .bytes = 4, .shared_from = 1}};
  return *parts;
}

const char* SharingName(int level) {
  static constexpr const char* kNames[kSharingLevels] = {
      "nothing", "optimizer state", "and gradients", "and parameters"};
  CHECK(0 <= level && level < kSharingLevels) << level;
  return kNames[level];
}

int64_t MixedPrecisionBytes() {
  int64_t bytes = 0;
  for (const MixedPrecisionPart& part : MixedPrecisionParts()) bytes += part.bytes;
  return bytes;
}

double BytesAtLevel(const MixedPrecisionPart& part, int level, int ranks) {
  return level >= part.shared_from ? static_cast<double>(part.bytes) / ranks : part.bytes;
}

double BytesAtLevel(int level, int ranks) {
  double bytes = 0;
  for (const MixedPrecisionPart& part : MixedPrecisionParts()) {
    bytes += BytesAtLevel(part, level, ranks);
  }
  return bytes;
}

std::vector<BudgetBytes> RingBudgets(const std::string& model, int ranks) {
  const ParameterLayout layout = FigureLayout(model);
  std::vector<BudgetBytes> all;
  for (const auto& [name, optimizer] : Optimizers()) {
    for (const bool sharded : {false, true}) {
      JobSpec spec = FigureJob(layout, ranks);
      *spec.mutable_experiment()->mutable_training()->mutable_optimizer() = optimizer;
      spec.mutable_arm()->mutable_ring()->set_sharded_optimizer(sharded);
      const std::vector<ProcessBudget> budgets = MemoryBudget(spec, PlanJob(spec));
      const ProcessBudget& most =
          *std::max_element(budgets.begin(), budgets.end(),
                            [](const ProcessBudget& a, const ProcessBudget& b) {
                              return BytesOf(a) < BytesOf(b);
                            });
      for (const PurposeBudget& purpose : most.purposes) {
        all.push_back({.optimizer = name,
                       .sharded = sharded,
                       .purpose = purpose.purpose,
                       .bytes_per_parameter = static_cast<double>(purpose.bytes) /
                                              static_cast<double>(layout.count())});
      }
    }
  }
  return all;
}

}  // namespace psring
