#include "common/memory_report.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;

TEST(MemoryReportTest, EachPurposeAndAllOfTheProcess) {
  Member member;
  member.set_role(SERVER);
  member.set_rank(2);
  MemoryGauges gauges;
  const MemoryClaim claim(gauges.Of("gradients"), 40);
  gauges.Of("parameters");
  RecordBatch batch;
  AddMemory(member, gauges, &batch);
  std::vector<std::string> records;
  for (const MemoryRecord& record : batch.memory()) {
    const bool resident = record.purpose() == memory_purpose::kResident;
    records.push_back(absl::StrCat(record.process(), ", ", record.purpose(),
                                   resident ? "" : absl::StrCat(", ", record.bytes())));
  }
  EXPECT_THAT(records, ElementsAre("server 2, gradients, 40", "server 2, parameters, 0",
                                   "server 2, resident"));
  EXPECT_GT(batch.memory(2).bytes(), 1 << 20);
}

// What is used once counts for good.
TEST(MemoryReportTest, ResidentIsTheMostThatThereWas) {
  constexpr size_t kBytes = 64 << 20;
  { const std::vector<char> used(kBytes, 1); }
  EXPECT_GE(MostResidentBytes(), kBytes);
}

}  // namespace
}  // namespace psring
