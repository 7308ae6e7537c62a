#include "worker/evaluate.h"

#include <algorithm>
#include <numeric>

#include "common/digest.h"
#include "common/status_macros.h"

namespace psring {

absl::StatusOr<EvaluationRecord> Evaluate(Device* device, Model* model, int64_t max_rows,
                                          const SampleSet& samples, int64_t features,
                                          std::span<const float> parameters) {
  ASSIGN_OR_RETURN(const DeviceBuffer bound, device->Allocate(model->layout().count()));
  std::copy(parameters.begin(), parameters.end(), bound.span().host().begin());
  model->Bind(bound.span(), {});
  ASSIGN_OR_RETURN(const DeviceBuffer inputs, device->Allocate(max_rows * features));
  std::vector<int32_t> labels(max_rows);
  std::vector<int64_t> indices(max_rows);

  double loss_sum = 0;
  int64_t correct = 0;
  for (int64_t begin = 0; begin < samples.count(); begin += max_rows) {
    const int64_t rows = std::min(max_rows, samples.count() - begin);
    indices.resize(rows);
    std::iota(indices.begin(), indices.end(), begin);
    samples.FillBatch(indices, inputs.span().data, labels.data());
    ASSIGN_OR_RETURN(const double loss,
                     model->Forward({.rows = rows,
                                     .features = inputs.span().Slice(
                                         {.begin = 0, .count = rows * features}),
                                     .labels = std::span(labels).first(rows)}));
    loss_sum += loss * static_cast<double>(rows);
    correct += model->correct();
  }
  EvaluationRecord record;
  record.set_loss(loss_sum / static_cast<double>(samples.count()));
  record.set_accuracy(static_cast<double>(correct) /
                      static_cast<double>(samples.count()));
  record.set_digest(Digest(parameters));
  return record;
}

}  // namespace psring
