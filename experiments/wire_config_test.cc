#include "experiments/wire_config.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

Arm Parse(const std::string& text, FieldOrigins* origins) {
  Experiment experiment;
  EXPECT_OK(ReadText(absl::StrCat("arms {\n", text, "}"), &experiment, origins)) << text;
  return experiment.arms(0);
}

absl::Status Check(const std::string& text) {
  FieldOrigins origins("file");
  return CheckWire(Parse(text, &origins), "arms[0]", origins);
}

auto IsError(const std::string& text) {
  return StatusIs(absl::StatusCode::kInvalidArgument, text);
}

TEST(WireConfigTest, Accepts) {
  for (const char* wire : {"", "fp32 {}", "bf16 {}", "fp16 {}"}) {
    for (const char* mode : {"parameter_server {}", "parameter_server { async {} }",
                             "ring {}", "ring { transport: GRPC algorithm: TREE }"}) {
      EXPECT_OK(Check(absl::StrCat(mode, " wire { ", wire, " }"))) << mode << wire;
    }
  }
  EXPECT_OK(Check("parameter_server {} wire { int8 {} }"));
  EXPECT_OK(Check("parameter_server {} wire { top_k { share: 1 } }"));
  EXPECT_OK(Check("local {}"));
  EXPECT_OK(Check("ring { transport: SHARED_MEMORY } wire { fp32 {} }"));
  EXPECT_OK(Check("ring { sharded_optimizer: true } wire { fp32 {} }"));
}

TEST(WireConfigTest, Refuses) {
  EXPECT_THAT(
      Check("local {}\nwire { bf16 {} }"),
      IsError("file:3: arms[0].wire: local arms send nothing; allowed: leaving it "
              "out"));
  EXPECT_THAT(Check("ring {}\nwire { int8 {} }"),
              IsError("file:3: arms[0].wire.int8: is for pushes to servers, and a ring "
                      "adds up what is on its way; allowed: fp32, bf16, fp16"));
  EXPECT_THAT(Check("ring {}\nwire { top_k { share: 0.5 } }"),
              IsError("file:3: arms[0].wire.top_k: is for pushes to servers, and a ring "
                      "adds up what is on its way; allowed: fp32, bf16, fp16"));
  EXPECT_THAT(Check("ring { transport: SHARED_MEMORY }\nwire { fp16 {} }"),
              IsError("file:3: arms[0].wire: is fp16, and in SHARED_MEMORY nothing is on "
                      "its way; allowed: fp32, or another transport"));
  EXPECT_THAT(Check("ring { sharded_optimizer: true }\nwire { bf16 {} }"),
              IsError("file:3: arms[0].wire: is bf16, and with ring.sharded_optimizer "
                      "half of what is sent are parameters, which are fp32; allowed: "
                      "fp32, or no sharded_optimizer"));
  for (const char* share : {"0", "-0.5", "1.01", "nan"}) {
    EXPECT_THAT(
        Check(absl::StrCat("parameter_server {}\nwire { top_k { share: ", share, " } }")),
        IsError(absl::StrCat("file:3: arms[0].wire.top_k.share: is ", share,
                             "; allowed: above 0, and at most 1")));
  }
  EXPECT_THAT(Check("parameter_server {}\nwire { top_k {} }"),
              IsError("file:3: arms[0].wire.top_k.share: missing; allowed: above 0, and "
                      "at most 1"));
}

TEST(WireConfigTest, TheDefaultIsFp32WhereSomethingIsSent) {
  FieldOrigins origins("file");
  Arm ring = Parse("ring {}", &origins);
  FillWireDefault(&ring);
  EXPECT_TRUE(ring.wire().has_fp32());
  Arm servers = Parse("parameter_server {} wire { top_k { share: 0.5 } }", &origins);
  FillWireDefault(&servers);
  EXPECT_TRUE(servers.wire().has_top_k());
  Arm local = Parse("local {}", &origins);
  FillWireDefault(&local);
  EXPECT_FALSE(local.has_wire());
}

}  // namespace
}  // namespace psring
