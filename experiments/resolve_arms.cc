#include "experiments/resolve_arms.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/job_plan.h"
#include "common/layout.h"
#include "common/status_macros.h"
#include "experiments/compute_config.h"
#include "experiments/config.h"
#include "experiments/inject_config.h"
#include "experiments/inventory.h"
#include "worker/mlp.h"

namespace psring {
namespace {

ParameterLayout LayoutOf(const ModelSettings& model, const DataSetShape& data) {
  if (model.has_tensors()) return TensorListLayout(model.tensors());
  if (model.has_inventory()) return InventoryLayout(model.inventory());
  std::vector<int64_t> widths = {data.features};
  for (const int64_t width : model.mlp().hidden()) widths.push_back(width);
  widths.push_back(data.classes);
  return MlpLayout(widths, model.mlp().branches());
}

}  // namespace

absl::StatusOr<DataSetShape> CheckData(const Experiment& experiment) {
  if (!experiment.has_data()) return DataSetShape{};
  ASSIGN_OR_RETURN(const DataSet data,
                   LoadFashionMnist(experiment.data().fashion_mnist().directory()));
  RETURN_IF_ERROR(CheckAgainstData(experiment, data.shape.train_count));
  return data.shape;
}

absl::StatusOr<std::vector<JobSpec>> ResolveArms(const Experiment& experiment,
                                                 const std::string& only,
                                                 const DataSetShape& data) {
  const ParameterLayout layout = LayoutOf(experiment.model(), data);
  std::vector<JobSpec> specs;
  std::vector<std::string> names;
  for (const Arm& arm : experiment.arms()) {
    names.push_back(arm.name());
    if (!only.empty() && arm.name() != only) continue;
    ASSIGN_OR_RETURN(JobSpec spec, ResolveArm(experiment, arm, data.train_count));
    DescribeLayout(layout, &spec);
    RETURN_IF_ERROR(CheckPlan(spec));
    RETURN_IF_ERROR(CheckFlips(spec));
    specs.push_back(std::move(spec));
  }
  if (specs.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "there is no arm \"", only, "\"; allowed: ", absl::StrJoin(names, ", ")));
  }
  return specs;
}

}  // namespace psring
