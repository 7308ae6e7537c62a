// Why communication was exposed, from processes to run.db, summary.json and the table.
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/end_to_end_test_util.h"
#include "tests/subprocess.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Optional;

class ExposedCausesTest : public EndToEndTest {};

// Worker 1 takes 180 ms for what the others do in 60, in both architectures.
TEST_F(ExposedCausesTest, ASlowWorkerIsToBlameOnAllOthers) {
  const auto psring = Start("compare", Write("config.textproto", R"(
      name: "causes"
      model { tensors { elements: 1000 repeat: 3 } }
      compute { emulated { forward_ms: 20 backward_ms: 40 } }
      buckets { cap_bytes: 8000 first_cap_bytes: 4000 }
      inject { slow_worker { rank: 1 factor: 3 } }
      training { steps: 5 global_batch: 6 optimizer { sgd { learning_rate: 0.1 } } }
      cluster { workers: 3 servers: 2 }
      arms { name: "servers" parameter_server {} }
      arms { name: "ring" ring {} }
      arms { name: "bounded" parameter_server { bounded {} } })"));
  ASSERT_THAT(psring->Wait(kPatience), Optional(0)) << psring->err();
  EXPECT_THAT(psring->out(),
              AllOf(HasSubstr("= not ready here"), HasSubstr("+ peer late"),
                    HasSubstr("+ on the wire"), HasSubstr("+ working"),
                    HasSubstr("longest for"), HasSubstr("overlap ratio")));
  EXPECT_EQ(QueryOne("SELECT count(*) FROM steps"),
            QueryOne("SELECT count(*) FROM steps JOIN waits USING (run, rank, step) "
                     "WHERE exposed_ns = not_ready_ns + peer_late_ns + on_wire_ns + "
                     "working_ns"));
  // Before the first step and after the last.
  EXPECT_THAT(Query("SELECT count(*) FROM clocks GROUP BY run, process"),
              AllOf(testing::SizeIs(5 + 3 + 5), testing::Each(2)));
  EXPECT_EQ(QueryOne("SELECT count(*) FROM clocks WHERE error_ns <= 0"), 0);
  for (const int run : {1, 2}) {
    SCOPED_TRACE(run);
    EXPECT_THAT(Query(absl::StrCat("SELECT DISTINCT waited_for FROM waits WHERE run = ",
                                   run, " AND rank <> 1")),
                testing::ElementsAre(1));
    EXPECT_GT(QueryOne(absl::StrCat(
                  "SELECT sum(peer_late_ns) * 1.0 / sum(exposed_ns) FROM steps JOIN "
                  "waits USING (run, rank, step) WHERE rank <> 1 AND run = ",
                  run)),
              0.5);
    const nlohmann::json summary = Summary();
    const nlohmann::json& arm = summary["arms"][run - 1];
    EXPECT_EQ(arm["arrival_skew"]["last"], 1);
    EXPECT_GT(arm["arrival_skew"]["worker_ms"][0], arm["arrival_skew"]["worker_ms"][1]);
    EXPECT_NEAR(arm["step_ms"]["exposed"].get<double>(),
                arm["step_ms"]["not_ready"].get<double>() +
                    arm["step_ms"]["peer_late"].get<double>() +
                    arm["step_ms"]["on_wire"].get<double>() +
                    arm["step_ms"]["working"].get<double>(),
                1e-6);
    EXPECT_GT(arm["buckets"][0]["working_ms"], 0);
  }
  // Of bounded(0), who has not pushed enough is told by the servers.
  EXPECT_GT(QueryOne("SELECT sum(peer_late_ns) FROM waits WHERE run = 3 AND rank <> 1 "
                     "AND waited_for = 1"),
            0);
}

}  // namespace
}  // namespace psring
