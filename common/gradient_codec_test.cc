#include "common/gradient_codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

WireType TypeOf(const std::string& text) {
  Wire wire;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &wire)) << text;
  return wire;
}

// Remembers what top_k leaves out.
class Encoder {
 public:
  Encoder(const std::string& wire, int64_t count)
      : wire_(TypeOf(wire)), left_out_(count), scratch_(count) {}

  Encoding Encode(const std::vector<float>& gradient) {
    encoded_.assign(wire_.EncodedBytes(static_cast<int64_t>(gradient.size())), {});
    return EncodeGradient(wire_, gradient, {.left_out = left_out_, .scratch = scratch_},
                          encoded_);
  }
  std::vector<float> Decoded() const {
    std::vector<float> gradient(left_out_.size());
    const Bytes whole = encoded_;
    EXPECT_OK(DecodeGradient(wire_, {&whole, 1}, gradient));
    return gradient;
  }
  std::vector<float> RoundTrip(const std::vector<float>& gradient) {
    Encode(gradient);
    return Decoded();
  }

  const WireType& wire() const { return wire_; }
  std::vector<std::byte>& encoded() { return encoded_; }
  const std::vector<float>& left_out() const { return left_out_; }

 private:
  const WireType wire_;
  std::vector<float> left_out_;
  std::vector<uint32_t> scratch_;
  std::vector<std::byte> encoded_;
};

std::vector<float> SomeGradient(int64_t count) {
  std::mt19937 random(2);
  std::vector<float> gradient(count);
  for (float& value : gradient) {
    value = (static_cast<float>(random() % 20001) - 10000) * 0.001f;
  }
  return gradient;
}

TEST(GradientCodecTest, SixteenBitsAreRounded) {
  const std::vector<float> gradient = {1.0f, 1.0f + 0x1p-8f, -1.0f - 3 * 0x1p-8f, 0.0f};
  Encoder bf16("bf16 {}", 4);
  EXPECT_THAT(bf16.RoundTrip(gradient), ElementsAre(1.0f, 1.0f, -1.0f - 0x1p-6f, 0.0f));
  Encoder fp16("fp16 {}", 4);
  EXPECT_THAT(fp16.RoundTrip(gradient), testing::ElementsAreArray(gradient));
}

TEST(GradientCodecTest, Int8HasStepsOfTheLargestOver127) {
  Encoder int8("int8 {}", 6);
  const Encoding encoding = int8.Encode({127.0f, -127.0f, 0.5f, 1.5f, 2.4f, 0.0f});
  EXPECT_THAT(int8.Decoded(), ElementsAre(127.0f, -127.0f, 0.0f, 2.0f, 2.0f, 0.0f));
  EXPECT_EQ(encoding.drift.count, 5);
  EXPECT_EQ(encoding.drift.max, 1);  // 0.5, which went as 0.
  EXPECT_NEAR(encoding.drift.sum, 1 + 0.5 / 1.5 + 0.4 / 2.4, 1e-6);
}

TEST(GradientCodecTest, Int8IsNeverMoreThanHalfAStepOff) {
  const std::vector<float> gradient = SomeGradient(5000);
  Encoder int8("int8 {}", 5000);
  const std::vector<float> decoded = int8.RoundTrip(gradient);
  for (size_t i = 0; i < gradient.size(); ++i) {
    ASSERT_LE(std::fabs(decoded[i] - gradient[i]), 0.5001f * 10 / 127) << i;
  }
}

TEST(GradientCodecTest, Int8OfExtremes) {
  Encoder int8("int8 {}", 3);
  const float largest = std::numeric_limits<float>::max();
  const float tiny = std::numeric_limits<float>::denorm_min();
  const std::vector<float> decoded = int8.RoundTrip({largest, -largest, 1});
  EXPECT_NEAR(decoded[0] / largest, 1, 1e-6);
  EXPECT_NEAR(decoded[1] / largest, -1, 1e-6);
  EXPECT_THAT(int8.RoundTrip({190 * tiny, -tiny, 0}), ElementsAre(0, 0, 0));
  EXPECT_THAT(int8.RoundTrip({0, 0, 0}), ElementsAre(0, 0, 0));
}

TEST(GradientCodecTest, TopKSendsTheLargestAndKeepsTheRestForTheNext) {
  Encoder top_k("top_k { share: 0.4 }", 5);
  const Encoding encoding = top_k.Encode({1, -5, 3, 0, -2});
  EXPECT_THAT(top_k.Decoded(), ElementsAre(0, -5, 3, 0, 0));
  EXPECT_THAT(top_k.left_out(), ElementsAre(1, 0, 0, 0, -2));
  EXPECT_EQ(encoding.drift.count, 4);
  EXPECT_EQ(encoding.drift.max, 1);
  EXPECT_EQ(encoding.drift.sum, 2);
  // 1 + 1.5 and -2 - 2 are now the largest.
  EXPECT_THAT(top_k.RoundTrip({1.5, 0, 2, 0, -2}), ElementsAre(2.5, 0, 0, 0, -4));
  EXPECT_THAT(top_k.left_out(), ElementsAre(0, 0, 2, 0, 0));
}

TEST(GradientCodecTest, TopKTakesTheFirstOfEqualsAndAlwaysAsMany) {
  Encoder top_k("top_k { share: 0.5 }", 6);
  EXPECT_THAT(top_k.RoundTrip({1, -1, 2, 1, 1, 1}), ElementsAre(1, -1, 2, 0, 0, 0));
  Encoder zeros("top_k { share: 0.5 }", 4);
  EXPECT_EQ(zeros.Encode({0, 0, 0, 0}).drift.count, 0);
  EXPECT_EQ(zeros.encoded().size(), 2u * 8);
  EXPECT_THAT(zeros.Decoded(), ElementsAre(0, 0, 0, 0));
}

TEST(GradientCodecTest, WithErrorFeedbackNothingIsLost) {
  constexpr int64_t kCount = 4000;
  Encoder top_k("top_k { share: 0.013 }", kCount);
  std::vector<float> sent(kCount), handed_in(kCount);
  for (int step = 0; step < 20; ++step) {
    std::vector<float> gradient = SomeGradient(kCount);
    // Sums of these are exact.
    for (float& value : gradient) value = std::nearbyint(value * 64) + step;
    const std::vector<float> decoded = top_k.RoundTrip(gradient);
    for (int64_t i = 0; i < kCount; ++i) {
      handed_in[i] += gradient[i];
      sent[i] += decoded[i];
    }
  }
  for (int64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(sent[i] + top_k.left_out()[i], handed_in[i]) << i;
  }
}

TEST(GradientCodecTest, ItMakesNoDifferenceWhereTheNetworkCuts) {
  constexpr int64_t kCount = 4500;  // More than two blocks.
  for (const char* const name :
       {"", "bf16 {}", "fp16 {}", "int8 {}", "top_k { share: 0.9 }"}) {
    SCOPED_TRACE(name);
    Encoder encoder(name, kCount);
    const std::vector<float> gradient = SomeGradient(kCount);
    if (encoder.wire().is_fp32()) {
      const Bytes bytes = std::as_bytes(std::span(gradient));
      encoder.encoded().assign(bytes.begin(), bytes.end());
    } else {
      encoder.Encode(gradient);
    }
    const std::vector<float> expected = encoder.Decoded();
    for (const size_t size : {1u, 3u, 7u, 4096u}) {
      std::vector<Bytes> pieces = {Bytes()};
      for (Bytes left = encoder.encoded(); !left.empty();) {
        pieces.push_back(left.first(std::min(size, left.size())));
        left = left.subspan(pieces.back().size());
      }
      std::vector<float> decoded(kCount);
      ASSERT_OK(DecodeGradient(encoder.wire(), pieces, decoded));
      EXPECT_TRUE(decoded == expected) << "pieces of " << size;
    }
  }
}

TEST(GradientCodecTest, NamesWhatCannotBeSent) {
  const float infinite = std::numeric_limits<float>::infinity();
  Encoder fp16("fp16 {}", 3);
  EXPECT_EQ(fp16.Encode({1, 65504, -65504}).not_finite, std::nullopt);
  EXPECT_EQ(fp16.Encode({1, 2, 65520}).not_finite, 2);
  Encoder int8("int8 {}", 3);
  EXPECT_EQ(int8.Encode({1, -infinite, 2}).not_finite, 1);
  Encoder top_k("top_k { share: 0.1 }", 3);
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(top_k.Encode({largest, largest, 1}).not_finite, std::nullopt);
  EXPECT_EQ(top_k.Encode({1, largest, 1}).not_finite, 1);  // With what was left out.
}

class RefusalTest : public testing::Test {
 protected:
  // Decodes three elements.
  static absl::Status Decode(const std::string& wire,
                             const std::vector<std::byte>& bytes) {
    std::vector<float> gradient(3);
    const Bytes whole = bytes;
    return DecodeGradient(TypeOf(wire), {&whole, 1}, gradient);
  }
  static auto IsRefused(const std::string& part) {
    return StatusIs(absl::StatusCode::kInvalidArgument,
                    testing::AllOf(HasSubstr(part), Not(HasSubstr("\n"))));
  }
  template <typename Value>
  static void Put(Value value, size_t at, std::vector<std::byte>* bytes) {
    std::memcpy(bytes->data() + at, &value, sizeof(value));
  }
};

TEST_F(RefusalTest, AnotherSize) {
  EXPECT_THAT(Decode("bf16 {}", std::vector<std::byte>(5)),
              IsRefused("a gradient of 3 elements as bf16 has 6 bytes, and here are 5"));
  EXPECT_THAT(Decode("fp16 {}", std::vector<std::byte>(12)), IsRefused("6 bytes"));
  EXPECT_THAT(Decode("int8 {}", std::vector<std::byte>(8)), IsRefused("7 bytes"));
  EXPECT_THAT(Decode("top_k { share: 0.5 }", std::vector<std::byte>(8)),
              IsRefused("16 bytes"));
  EXPECT_THAT(Decode("", {}), IsRefused("as fp32 has 12 bytes, and here are 0"));
}

TEST_F(RefusalTest, AScaleThatCannotBe) {
  std::vector<std::byte> bytes(7);
  EXPECT_OK(Decode("int8 {}", bytes));
  for (const float scale :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(),
        std::numeric_limits<float>::max(), -1.0f}) {
    Put(scale, 0, &bytes);
    EXPECT_THAT(Decode("int8 {}", bytes), IsRefused("has a scale of "));
  }
}

TEST_F(RefusalTest, AStepThatCannotBe) {
  std::vector<std::byte> bytes(7);
  Put(1.0f, 0, &bytes);
  Put(int8_t{-127}, 5, &bytes);
  EXPECT_OK(Decode("int8 {}", bytes));
  Put(int8_t{-128}, 5, &bytes);
  EXPECT_THAT(Decode("int8 {}", bytes), IsRefused("has an element of -128 steps"));
}

TEST_F(RefusalTest, AnIndexThatCannotBe) {
  std::vector<std::byte> bytes(16);
  Put(uint32_t{1}, 0, &bytes);
  Put(uint32_t{2}, 4, &bytes);
  EXPECT_OK(Decode("top_k { share: 0.5 }", bytes));
  Put(uint32_t{3}, 4, &bytes);
  EXPECT_THAT(Decode("top_k { share: 0.5 }", bytes), IsRefused("names element 3 of 3"));
  Put(uint32_t{0xffffffff}, 4, &bytes);
  EXPECT_THAT(Decode("top_k { share: 0.5 }", bytes),
              IsRefused("names element 4294967295 of 3"));
  Put(uint32_t{1}, 4, &bytes);
  EXPECT_THAT(Decode("top_k { share: 0.5 }", bytes),
              IsRefused("names element 1 after element 1"));
  Put(uint32_t{0}, 4, &bytes);
  EXPECT_THAT(Decode("top_k { share: 0.5 }", bytes),
              IsRefused("names element 0 after element 1"));
}

}  // namespace
}  // namespace psring
