#include "server/slot_parameters.h"

#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;

class SlotParametersTest : public testing::Test {
 protected:
  SlotParametersTest() { parameters_.Assign(initial_); }

  const std::vector<float> initial_ = {1, 2, 3};
  const SlotMemory memory_ = {.current = std::make_shared<MemoryGauge>(),
                              .older = std::make_shared<MemoryGauge>()};
  SlotParameters parameters_{memory_};
};

TEST_F(SlotParametersTest, WithoutReadersItIsChangedInPlace) {
  const float* const before = parameters_.values().data();
  parameters_.Share();  // Dropped at once.
  parameters_.MakeWritable()[0] = 7;
  EXPECT_EQ(parameters_.values().data(), before);
  EXPECT_THAT(parameters_.values(), ElementsAre(7, 2, 3));
  EXPECT_EQ(memory_.current->peak(), 3 * 4);
  EXPECT_EQ(memory_.older->peak(), 0);
}

TEST_F(SlotParametersTest, AReaderKeepsItsVersionAndTheNextGetsABuffer) {
  std::shared_ptr<const void> first = parameters_.Share();
  std::shared_ptr<const void> second = parameters_.Share();
  const std::span<const float> before = parameters_.values();
  parameters_.MakeWritable()[0] = 7;
  EXPECT_THAT(before, ElementsAre(1, 2, 3));
  EXPECT_THAT(parameters_.values(), ElementsAre(7, 2, 3));
  EXPECT_EQ(memory_.older->now(), 3 * 4);
  // The new buffer has no reader: the next change is in place.
  const float* const copied = parameters_.values().data();
  parameters_.MakeWritable()[0] = 8;
  EXPECT_EQ(parameters_.values().data(), copied);
  first.reset();
  EXPECT_THAT(before, ElementsAre(1, 2, 3));
  EXPECT_EQ(memory_.older->now(), 3 * 4);
  second.reset();
  parameters_.MakeWritable();  // In place, so the buffer of before goes.
  EXPECT_EQ(parameters_.values().data(), copied);
  EXPECT_EQ(memory_.older->now(), 0);
  EXPECT_EQ(memory_.older->peak(), 3 * 4);
  // There is one current version at any moment.
  EXPECT_EQ(memory_.current->now(), 3 * 4);
  EXPECT_EQ(memory_.current->peak(), 3 * 4);
}

TEST_F(SlotParametersTest, BuffersTakeTurnsWhereEveryVersionIsStillRead) {
  std::shared_ptr<const void> last = parameters_.Share();
  const float* const first = parameters_.values().data();
  parameters_.MakeWritable()[0] = 10;
  const float* const second = parameters_.values().data();
  for (int version = 1; version < 5; ++version) {
    last = parameters_.Share();  // The one before is read no more.
    parameters_.MakeWritable()[0] += 1;
    EXPECT_EQ(parameters_.values().data(), version % 2 == 1 ? first : second);
    EXPECT_THAT(parameters_.values(), ElementsAre(10 + version, 2, 3));
  }
  EXPECT_EQ(memory_.older->peak(), 3 * 4);
  EXPECT_EQ(memory_.current->peak(), 3 * 4);
}

TEST(SlotParametersLifeTest, AReaderMayOutliveTheParameters) {
  const auto gauge = std::make_shared<MemoryGauge>();
  auto parameters =
      std::make_unique<SlotParameters>(SlotMemory{.current = gauge, .older = nullptr});
  const std::vector<float> values = {4, 5};
  parameters->Assign(values);
  const std::span<const float> shared = parameters->values();
  std::shared_ptr<const void> reader = parameters->Share();
  parameters.reset();
  EXPECT_THAT(shared, ElementsAre(4, 5));
  reader.reset();
  EXPECT_EQ(gauge->now(), 0);
}

}  // namespace
}  // namespace psring
