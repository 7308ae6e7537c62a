// The training loop on a small model, against a scripted exchange.
#ifndef PSRING_WORKER_TRAINER_TEST_UTIL_H_
#define PSRING_WORKER_TRAINER_TEST_UTIL_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/cpu_device.h"
#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "worker/mlp.h"
#include "worker/trainer.h"

namespace psring {

// Every look at the clock takes a millisecond.
class CountingTime final : public TimeSource {
 public:
  absl::Duration Elapsed() const override { return now_ += absl::Milliseconds(1); }
  void Advance(absl::Duration by) { now_ += by; }

 private:
  mutable absl::Duration now_;
};

// Writes down what is asked of it; each Finish adds one to every parameter.
class ScriptedExchange final : public GradientExchange {
 public:
  absl::Status Bind(DeviceSpan parameters, DeviceSpan gradients) override {
    parameters_ = parameters;
    gradients_ = gradients;
    return absl::OkStatus();
  }
  absl::Status Launch(int64_t step, const Bucket& bucket, const ReadyEvent&) override {
    const std::span<const float> gradients = gradients_.Slice(bucket.range).host();
    launched_gradients.insert(launched_gradients.end(), gradients.begin(),
                              gradients.end());
    launched_zeros.push_back(
        std::all_of(gradients.begin(), gradients.end(), [](float g) { return g == 0; }));
    done_[bucket.index] = absl::Seconds(100 * step + bucket.index);
    calls.push_back(absl::StrCat("launch ", step, ".", bucket.index));
    return fail_launch ? absl::InternalError("launch failed") : absl::OkStatus();
  }
  absl::StatusOr<StepReport> Finish(int64_t step) override {
    calls.push_back(absl::StrCat("finish ", step));
    if (step == fail_finish_of) return absl::UnavailableError("worker 1 is gone");
    for (float& parameter : parameters_.host()) parameter += 1;
    return StepReport{.finished = step == last_step,
                      .optimizer = absl::Microseconds(250),
                      .bucket_done = done_,
                      .bucket_working = working_,
                      .operations = 3,
                      .peer_late = step * absl::Microseconds(100),
                      .waited_for = step > 0 ? std::optional<int>(7) : std::nullopt,
                      .version_skew = 2 * step,
                      .drift = drift};
  }
  void Abort(absl::Status) override {}
  ExchangeTraffic traffic() const override {
    const auto finished = static_cast<int64_t>(calls.size());
    return {.payload_out = finished, .payload_in = 2 * finished};
  }

  std::string Awaited() const override { return ""; }

  std::vector<std::string> calls;
  bool fail_launch = false;
  int64_t fail_finish_of = -1;
  std::optional<Drift> drift;
  int64_t last_step = -1;                 // The one that is finished with the run's end.
  std::vector<bool> launched_zeros;       // By launch: its gradients were all zero.
  std::vector<float> launched_gradients;  // In the order of launches.

 private:
  DeviceSpan parameters_;
  DeviceSpan gradients_;
  std::vector<absl::Duration> done_ = std::vector<absl::Duration>(3);  // By bucket.
  const std::vector<absl::Duration> working_ = {
      absl::Nanoseconds(7), absl::Nanoseconds(8), absl::Nanoseconds(9)};
};

class TrainerTest : public testing::Test {
 protected:
  static constexpr int64_t kFeatures = 4;

  TrainerTest()
      : data_{.shape = {.train_count = 20,
                        .test_count = 2,
                        .features = kFeatures,
                        .classes = 3},
              .train = Samples(20),
              .test = Samples(2)} {}

  static SampleSet Samples(int count) {
    std::vector<uint8_t> pixels(count * kFeatures), labels(count);
    std::iota(pixels.begin(), pixels.end(), 0);
    for (int i = 0; i < count; ++i) labels[i] = static_cast<uint8_t>(i % 3);
    return SampleSet(kFeatures, std::move(pixels), std::move(labels));
  }

  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(model_, MakeMlp(device_.get(), {kFeatures, 5, 3}, 4));
    buckets_ = PlanBuckets(model_->layout(), 80, 60);
    ASSERT_EQ(buckets_.buckets.size(), 3);
    ASSERT_OK_AND_ASSIGN(parameters_, device_->Allocate(model_->layout().count()));
    ASSERT_OK_AND_ASSIGN(gradients_, device_->Allocate(model_->layout().count()));
    model_->Bind(parameters_.span(), gradients_.span());
    ASSERT_OK(exchange_.Bind(parameters_.span(), gradients_.span()));
  }

  void Fill(float value) {
    const std::span<float> parameters = parameters_.span().host();
    std::fill(parameters.begin(), parameters.end(), value);
  }

  absl::Status Train(Trainer::Options options) {
    options.rank = 1;
    options.workers = 2;
    options.rows = 4;
    Sampler sampler(data_.shape.train_count, /*global_batch=*/8, /*seed=*/1, last_batch_);
    Trainer trainer(options,
                    {.device = device_.get(),
                     .model = model_.get(),
                     .exchange = &exchange_,
                     .buckets = &buckets_,
                     .data = with_data_ ? &data_ : nullptr,
                     .sampler = with_data_ ? &sampler : nullptr,
                     .time = &time_,
                     .pace = pace_.get(),
                     .parameters = parameters_.span(),
                     .gradients = gradients_.span()},
                    [this](const StepRecord& step) { steps_.push_back(step); });
    const absl::Status status = trainer.Run();
    snapshots_ = trainer.TakeSnapshots();
    return status;
  }

  CountingTime time_;
  std::unique_ptr<Device> device_ = MakeCpuDevice();
  DataSet data_;
  int64_t last_batch_ = 0;  // Of the samples that are left of an epoch.
  std::unique_ptr<Pace> pace_ = std::make_unique<Pace>(PaceSettings(), &time_, nullptr);
  bool with_data_ = true;
  ScriptedExchange exchange_;
  std::unique_ptr<Model> model_;
  BucketPlan buckets_;
  DeviceBuffer parameters_, gradients_;
  int waits_ = 0;
  std::vector<StepRecord> steps_;
  std::vector<Snapshot> snapshots_;
};

}  // namespace psring

#endif  // PSRING_WORKER_TRAINER_TEST_UTIL_H_
