#include "experiments/device_config.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

// On the lines below.
absl::Status Check(const std::string& text) {
  Experiment experiment;
  FieldOrigins origins("file");
  EXPECT_OK(ReadText(absl::StrCat("\n", text), &experiment, &origins)) << text;
  return CheckDeviceSettings(experiment, origins);
}

auto IsError(const std::string& text) {
  return StatusIs(absl::StatusCode::kInvalidArgument,
                  testing::Eq(absl::StrCat("file:2: ", text)));
}

TEST(DeviceConfigTest, Accepts) {
  for (const char* text :
       {"", "device: CPU", "device: CUDA", "device: CUDA compute { real {} }",
        "device: CUDA compute { padded { step_ms: 5 } }",
        "device: CUDA arms { ring {} } arms { parameter_server {} }",
        "device: CPU compute { emulated {} } arms { ring { transport: SHARED_MEMORY } "
        "}"}) {
    EXPECT_OK(Check(text)) << text;
  }
}

TEST(DeviceConfigTest, RefusesWhatDoesNotGoWithGpus) {
  EXPECT_THAT(Check("device: 2"), IsError("device: is 2; allowed: CPU, CUDA"));
  EXPECT_THAT(Check("device: CUDA compute { emulated {} }"),
              IsError("device: is CUDA, and emulated compute computes nothing; allowed: "
                      "CPU with compute { emulated { } }"));
  EXPECT_THAT(
      Check("device: CUDA arms { ring {} } arms { ring { transport: SHARED_MEMORY } }"),
      IsError("arms[1].ring.transport: is SHARED_MEMORY, which is processors' alone, and "
              "device is CUDA; allowed: TCP, GRPC"));
}

TEST(DeviceConfigTest, Describes) {
  Experiment experiment;
  EXPECT_EQ(DescribeDevice(experiment), "CPU");
  experiment.set_device(Experiment::CUDA);
  EXPECT_EQ(DescribeDevice(experiment), "CUDA, a GPU for each worker");
}

}  // namespace
}  // namespace psring
