#include "worker/bit_flipping_exchange.h"

#include <bit>
#include <span>
#include <utility>

#include "common/status_macros.h"
#include "glog/logging.h"

namespace psring {

BitFlippingExchange::BitFlippingExchange(std::unique_ptr<GradientExchange> exchange,
                                         std::vector<FlipBit> flips)
    : exchange_(std::move(exchange)), flips_(std::move(flips)) {}

absl::Status BitFlippingExchange::Bind(DeviceSpan parameters, DeviceSpan gradients) {
  for (const FlipBit& flip : flips_) CHECK_LT(flip.element(), parameters.count);
  parameters_ = parameters;
  return exchange_->Bind(parameters, gradients);
}

absl::Status BitFlippingExchange::Launch(int64_t step, const Bucket& bucket,
                                         const ReadyEvent& ready) {
  return exchange_->Launch(step, bucket, ready);
}

absl::StatusOr<StepReport> BitFlippingExchange::Finish(int64_t step) {
  ASSIGN_OR_RETURN(const StepReport report, exchange_->Finish(step));
  for (const FlipBit& flip : flips_) {
    if (flip.step() != step) continue;
    float& value = parameters_.host()[flip.element()];
    value = std::bit_cast<float>(std::bit_cast<uint32_t>(value) ^ 1u << flip.bit());
  }
  return report;
}

void BitFlippingExchange::Abort(absl::Status reason) {
  exchange_->Abort(std::move(reason));
}

}  // namespace psring
