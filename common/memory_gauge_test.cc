#include "common/memory_gauge.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/cpu_device.h"
#include "common/status_matchers.h"
#include "common/tracked_buffer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(MemoryGaugeTest, KnowsTheMostThatThereWas) {
  MemoryGauge gauge;
  gauge.Add(10);
  gauge.Add(20);
  gauge.Remove(25);
  gauge.Add(7);
  EXPECT_EQ(gauge.now(), 12);
  EXPECT_EQ(gauge.peak(), 30);
}

TEST(MemoryClaimTest, CountsOnceHoweverItMoves) {
  const auto gauge = std::make_shared<MemoryGauge>();
  {
    MemoryClaim claim(gauge, 8);
    std::vector<MemoryClaim> claims;
    claims.push_back(std::move(claim));
    EXPECT_EQ(gauge->now(), 8);
    claims.front() = MemoryClaim(gauge, 3);
    EXPECT_EQ(gauge->now(), 3);
    std::optional<MemoryClaim> other = std::move(claims.front());
    other.reset();
    EXPECT_EQ(gauge->now(), 0);
  }
  EXPECT_EQ(gauge->now(), 0);
  EXPECT_EQ(gauge->peak(), 11);
}

TEST(MemoryClaimTest, WithoutAGaugeNobodyCounts) { MemoryClaim claim(nullptr, 8); }

TEST(MemoryClaimTest, MovesBetweenPurposes) {
  const auto from = std::make_shared<MemoryGauge>();
  const auto to = std::make_shared<MemoryGauge>();
  MemoryClaim claim(from, 8);
  claim = MemoryClaim(to, 8);
  EXPECT_EQ(from->now(), 0);
  EXPECT_EQ(to->now(), 8);
}

TEST(MemoryGaugesTest, OneForEachPurpose) {
  MemoryGauges gauges;
  gauges.Of("b");
  {
    const MemoryClaim first(gauges.Of("a"), 1);
    const MemoryClaim second(gauges.Of("a"), 2);
  }
  EXPECT_THAT(gauges.Peaks(), ElementsAre(Pair("a", 3), Pair("b", 0)));
}

TEST(TrackedBufferTest, CountsUntilItsLastCopyHasEnded) {
  const auto gauge = std::make_shared<MemoryGauge>();
  const std::unique_ptr<Device> device = MakeCpuDevice();
  {
    ASSERT_OK_AND_ASSIGN(DeviceBuffer plain, device->Allocate(3));
    std::optional<DeviceBuffer> buffer = Tracked(std::move(plain), gauge);
    buffer->span().host()[2] = 5;
    const DeviceBuffer copy = *buffer;
    buffer.reset();
    EXPECT_EQ(gauge->now(), 12);
    EXPECT_EQ(copy.span().host()[2], 5);
  }
  EXPECT_EQ(gauge->now(), 0);
  EXPECT_EQ(gauge->peak(), 12);
}

}  // namespace
}  // namespace psring
