#include "common/wire_type.h"

#include <limits>

#include "gtest/gtest.h"

namespace psring {
namespace {

WireType TopK(double share) {
  Wire wire;
  wire.mutable_top_k()->set_share(share);
  return wire;
}

TEST(WireTypeTest, SaysHowManyBytesAGradientTakes) {
  EXPECT_EQ(WireType().EncodedBytes(7), 28);
  EXPECT_TRUE(WireType(Wire()).is_fp32());
  Wire wire;
  wire.mutable_bf16();
  EXPECT_EQ(WireType(wire).EncodedBytes(7), 14);
  wire.mutable_fp16();
  EXPECT_EQ(WireType(wire).EncodedBytes(7), 14);
  wire.mutable_int8();
  EXPECT_EQ(WireType(wire).EncodedBytes(7), 11);  // With the scale.
  EXPECT_EQ(TopK(0.5).EncodedBytes(7), 4 * 8);    // Indices too.
  EXPECT_EQ(TopK(0.5).EncodedBytes(0), 0);
}

TEST(WireTypeTest, AShareIsRoundedUpAndNoFurther) {
  EXPECT_EQ(TopK(0.01).SentOf(1), 1);
  EXPECT_EQ(TopK(0.01).SentOf(100), 1);
  EXPECT_EQ(TopK(0.01).SentOf(101), 2);
  EXPECT_EQ(TopK(0.07).SentOf(100), 7);  // 7.000000000000001 as doubles.
  EXPECT_EQ(TopK(1).SentOf(12345), 12345);
  EXPECT_EQ(WireType().SentOf(5), 5);
}

TEST(WireTypeTest, HasANameAndALargestNumber) {
  Wire wire;
  EXPECT_EQ(WireType(wire).name(), "fp32");
  EXPECT_EQ(WireType(wire).largest(), std::numeric_limits<float>::max());
  wire.mutable_fp16();
  EXPECT_EQ(WireType(wire).name(), "fp16");
  EXPECT_EQ(WireType(wire).largest(), 65504.0f);
  wire.mutable_bf16();
  EXPECT_EQ(WireType(wire).name(), "bf16");
  EXPECT_EQ(WireType(wire).largest(), 0x1.fep127f);
  wire.mutable_int8();
  EXPECT_EQ(WireType(wire).name(), "int8");
  EXPECT_EQ(WireType(wire).largest(), std::numeric_limits<float>::max());
  EXPECT_EQ(TopK(0.01).name(), "top_k 0.01");
}

}  // namespace
}  // namespace psring
