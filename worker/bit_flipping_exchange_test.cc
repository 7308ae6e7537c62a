#include "worker/bit_flipping_exchange.h"

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;

// Its parameters are all 1 after each step, unless it has been aborted.
class ExchangeOfOnes final : public GradientExchange {
 public:
  absl::Status Bind(DeviceSpan parameters, DeviceSpan) override {
    parameters_ = parameters;
    return absl::OkStatus();
  }
  absl::Status Launch(int64_t, const Bucket&, const ReadyEvent&) override {
    return status_;
  }
  absl::StatusOr<StepReport> Finish(int64_t) override {
    if (!status_.ok()) return status_;
    for (float& value : parameters_.host()) value = 1;
    return StepReport{.finished = true};
  }
  void Abort(absl::Status reason) override { status_ = std::move(reason); }
  ExchangeTraffic traffic() const override { return {.payload_out = 7}; }
  std::string Awaited() const override { return "nobody"; }

 private:
  DeviceSpan parameters_;
  absl::Status status_;
};

FlipBit Flip(int64_t step, int64_t element, int64_t bit) {
  FlipBit flip;
  flip.set_step(step);
  flip.set_element(element);
  flip.set_bit(bit);
  return flip;
}

class BitFlippingExchangeTest : public testing::Test {
 protected:
  void Make(std::vector<FlipBit> flips) {
    exchange_ = std::make_unique<BitFlippingExchange>(std::make_unique<ExchangeOfOnes>(),
                                                      std::move(flips));
    ASSERT_OK(exchange_->Bind({.data = parameters_.data(), .count = 3},
                              {.data = gradients_.data(), .count = 3}));
  }

  std::vector<float> parameters_ = {0, 0, 0};
  std::vector<float> gradients_ = {0, 0, 0};
  std::unique_ptr<GradientExchange> exchange_;
};

TEST_F(BitFlippingExchangeTest, FlipsAfterItsStepAndNoOther) {
  Make({Flip(1, 2, 31), Flip(1, 0, 23), Flip(3, 1, 0)});
  ASSERT_OK(exchange_->Finish(0));
  EXPECT_THAT(parameters_, ElementsAre(1, 1, 1));
  ASSERT_OK(exchange_->Finish(1));
  EXPECT_THAT(parameters_, ElementsAre(0.5f, 1, -1));
  ASSERT_OK(exchange_->Finish(2));
  EXPECT_THAT(parameters_, ElementsAre(1, 1, 1));
  ASSERT_OK(exchange_->Finish(3));
  EXPECT_THAT(parameters_, ElementsAre(1, std::nextafter(1.0f, 2.0f), 1));
}

TEST_F(BitFlippingExchangeTest, AHighBitMayMakeItNotFinite) {
  Make({Flip(0, 1, 30)});
  ASSERT_OK(exchange_->Finish(0));
  EXPECT_FALSE(std::isfinite(parameters_[1]));
}

TEST_F(BitFlippingExchangeTest, TheRestIsTheOthers) {
  Make({Flip(0, 0, 0)});
  ASSERT_OK(exchange_->Launch(0, Bucket(), ReadyEvent::Happened()));
  ASSERT_OK_AND_ASSIGN(const StepReport report, exchange_->Finish(5));
  EXPECT_TRUE(report.finished);
  EXPECT_EQ(exchange_->traffic().payload_out, 7);
  EXPECT_EQ(exchange_->Awaited(), "nobody");
  exchange_->Abort(absl::AbortedError("over"));
  EXPECT_THAT(exchange_->Launch(0, Bucket(), ReadyEvent::Happened()),
              StatusIs(absl::StatusCode::kAborted, "over"));
  EXPECT_THAT(exchange_->Finish(0), StatusIs(absl::StatusCode::kAborted, "over"));
  EXPECT_THAT(parameters_, ElementsAre(1, 1, 1));
}

}  // namespace
}  // namespace psring
