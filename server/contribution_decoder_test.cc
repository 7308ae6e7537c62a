#include "server/contribution_decoder.h"

#include <memory>
#include <utility>
#include <vector>

#include "common/gradient_codec.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

WireType Bf16() {
  Wire wire;
  wire.mutable_bf16();
  return wire;
}

std::vector<std::byte> Encoded(const std::vector<float>& gradient) {
  std::vector<std::byte> bytes(2 * gradient.size());
  EncodeGradient(Bf16(), gradient, {}, bytes);
  return bytes;
}

std::vector<float> FloatsIn(const Contribution& contribution) {
  std::vector<float> floats(contribution.gradient.count());
  contribution.gradient.CopyTo(floats);
  return floats;
}

TEST(ContributionDecoderTest, Fp32StaysWhereItIs) {
  const std::vector<float> gradient = {1, 2, 3};
  const auto owner = std::make_shared<int>(0);
  const ContributionDecoder decoder{WireType()};
  ASSERT_OK_AND_ASSIGN(const Contribution contribution,
                       decoder.Decode({std::as_bytes(std::span(gradient))}, owner, 3));
  EXPECT_EQ(contribution.gradient.pieces()[0].data(),
            reinterpret_cast<const std::byte*>(gradient.data()));
  EXPECT_EQ(contribution.owner, owner);
  EXPECT_EQ(contribution.payload_bytes, 12);
}

TEST(ContributionDecoderTest, OthersAreDecodedAndTheBytesAreLetGoOf) {
  const ContributionDecoder decoder(Bf16());
  auto owner = std::make_shared<int>(0);
  const std::vector<std::byte> bytes = Encoded({1, -2, 0.5});
  ASSERT_OK_AND_ASSIGN(const Contribution contribution,
                       decoder.Decode({Bytes(bytes)}, owner, 3));
  EXPECT_THAT(FloatsIn(contribution), ElementsAre(1, -2, 0.5));
  EXPECT_EQ(contribution.payload_bytes, 6);
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(ContributionDecoderTest, ABufferIsUsedAgainOnceItsContributionHasGone) {
  auto decoder = std::make_unique<ContributionDecoder>(Bf16());
  const auto decode = [&](const std::vector<float>& gradient) {
    const std::vector<std::byte> bytes = Encoded(gradient);
    absl::StatusOr<Contribution> contribution =
        decoder->Decode({Bytes(bytes)}, nullptr, static_cast<int64_t>(gradient.size()));
    EXPECT_OK(contribution);
    return *std::move(contribution);
  };
  const auto memory_of = [](const Contribution& contribution) {
    return contribution.gradient.pieces()[0].data();
  };
  Contribution first = decode({1, 2});
  const Contribution second = decode({3, 4});
  EXPECT_NE(memory_of(first), memory_of(second));
  const std::byte* const memory = memory_of(first);
  first = {};
  first = decode({5, 6});
  EXPECT_EQ(memory_of(first), memory);
  EXPECT_THAT(FloatsIn(first), ElementsAre(5, 6));
  decoder.reset();
  EXPECT_THAT(FloatsIn(second), ElementsAre(3, 4));
}

TEST(ContributionDecoderTest, RefusesWhatIsNoSuchGradient) {
  const std::vector<std::byte> bytes(7);
  EXPECT_THAT(ContributionDecoder(WireType()).Decode({Bytes(bytes)}, nullptr, 3),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("whole floats")));
  EXPECT_THAT(ContributionDecoder(Bf16()).Decode({Bytes(bytes)}, nullptr, 3),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("as bf16 has 6 bytes, and here are 7")));
}

}  // namespace
}  // namespace psring
