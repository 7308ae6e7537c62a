// A model that gets stuck on purpose.
#ifndef PSRING_WORKER_STALLING_MODEL_H_
#define PSRING_WORKER_STALLING_MODEL_H_

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "common/abort_source.h"
#include "worker/model.h"

namespace psring {

// Passes everything on to another model, until Forward number `forward` (counted from 0)
// blocks. Only an abort ends that, and its reason is what Forward returns.
class StallingModel final : public Model {
 public:
  // `aborts` outlives this.
  StallingModel(std::unique_ptr<Model> model, int64_t forward, AbortSource* aborts)
      : model_(std::move(model)), forward_(forward), aborts_(aborts) {}

  const ParameterLayout& layout() const override { return model_->layout(); }
  void Bind(DeviceSpan parameters, DeviceSpan gradients) override {
    model_->Bind(parameters, gradients);
  }
  absl::StatusOr<double> Forward(const Batch& batch) override;
  absl::Status Backward(absl::FunctionRef<void(int tensor)> ready) override {
    return model_->Backward(ready);
  }
  std::span<const int> unused() const override { return model_->unused(); }
  int64_t correct() const override { return model_->correct(); }

 private:
  const std::unique_ptr<Model> model_;
  const int64_t forward_;
  AbortSource* const aborts_;
  int64_t forwards_ = 0;
};

}  // namespace psring

#endif  // PSRING_WORKER_STALLING_MODEL_H_
