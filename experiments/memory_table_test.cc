#include "experiments/memory_table.h"

#include <vector>

#include "gtest/gtest.h"

namespace psring {
namespace {

ProcessMemory Process(const char* name, const char* role, int64_t state, int64_t other,
                      int64_t resident) {
  return {.name = name,
          .role = role,
          .reported = true,
          .uses = {{.purpose = "parameters", .bytes = 1000, .budget = 1000},
                   {.purpose = "optimizer state", .bytes = state, .budget = 50},
                   {.purpose = "contributions", .bytes = other, .budget = 70},
                   {.purpose = "older versions", .bytes = 1, .budget = 7}},
          .resident = resident};
}

TEST(MemoryTableTest, TheMostOfOneProcessOfEachRole) {
  ArmResult arm;
  arm.name = "servers";
  arm.servers = 1;
  arm.memory_use = {Process("worker 0", "worker", 20, 9, 4000),
                    Process("worker 1", "worker", 30, 5, 3000),
                    Process("server 0", "server", 10, 6, 123456)};
  ArmResult ring;
  ring.name = "ring";
  ring.memory_use = {Process("worker 0", "worker", 0, 0, 1)};
  EXPECT_EQ(MemoryTable({{.runs = {arm}}, {.runs = {ring}}}),
            "  memory in bytes, at most  parameters  gradients  optimizer state  other  "
            "budget of these  resident\n"
            "  servers / worker               1,000          0               30     10  "
            "          1,127     4,000\n"
            "  servers / server               1,000          0               10      7  "
            "          1,127   123,456\n"
            "  ring / worker                  1,000          0                0      1  "
            "          1,127         1\n");
}

TEST(MemoryTableTest, AnArmThatEndedEarlyHasNoRow) {
  EXPECT_EQ(MemoryTable({{.runs = {ArmResult()}}}), "");
}

}  // namespace
}  // namespace psring
