#include "experiments/figures/figure_model.h"

#include "common/job_plan.h"
#include "experiments/bucket_defaults.h"
#include "experiments/inventory.h"
#include "proto/experiment.pb.h"
#include "worker/mlp.h"

namespace psring {
namespace {

constexpr char kOwnModel[] = "fashion_mnist";

}  // namespace

std::vector<std::string> FigureModels() {
  std::vector<std::string> names = InventoryNames();
  names.insert(names.begin(), kOwnModel);
  return names;
}

ParameterLayout FigureLayout(const std::string& model) {
  if (model == kOwnModel) return MlpLayout({784, 256, 128, 10});
  InventoryModel inventory;
  inventory.set_name(model);
  inventory.set_divisor(1);
  return InventoryLayout(inventory);
}

JobSpec FigureJob(const ParameterLayout& layout, int workers) {
  JobSpec spec;
  spec.set_workers(workers);
  Buckets& buckets = *spec.mutable_experiment()->mutable_buckets();
  buckets.set_cap_bytes(kDefaultCapBytes);
  buckets.set_first_cap_bytes(kDefaultFirstCapBytes);
  DescribeLayout(layout, &spec);
  return spec;
}

}  // namespace psring
