// Faults that are injected into a worker's parameters, for what should notice them.
#ifndef PSRING_WORKER_BIT_FLIPPING_EXCHANGE_H_
#define PSRING_WORKER_BIT_FLIPPING_EXCHANGE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/device_span.h"
#include "common/gradient_exchange.h"
#include "common/layout.h"
#include "proto/experiment.pb.h"

namespace psring {

// Another exchange that changes bits of the bound parameters when a step is finished, as
// FlipBit (proto/experiment.proto) says. Everything else is the other one's.
class BitFlippingExchange final : public GradientExchange {
 public:
  // `flips` are those of this worker, within the parameters that will be bound. Host
  // memory only.
  BitFlippingExchange(std::unique_ptr<GradientExchange> exchange,
                      std::vector<FlipBit> flips);

  absl::Status Bind(DeviceSpan parameters, DeviceSpan gradients) override;
  absl::Status Launch(int64_t step, const Bucket& bucket,
                      const ReadyEvent& ready) override;
  absl::StatusOr<StepReport> Finish(int64_t step) override;
  void Abort(absl::Status reason) override;
  ExchangeTraffic traffic() const override { return exchange_->traffic(); }
  std::string Awaited() const override { return exchange_->Awaited(); }

 private:
  const std::unique_ptr<GradientExchange> exchange_;
  const std::vector<FlipBit> flips_;
  DeviceSpan parameters_;  // The training thread's.
};

}  // namespace psring

#endif  // PSRING_WORKER_BIT_FLIPPING_EXCHANGE_H_
