#include "experiments/consistency_config.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::Eq;

// Of an arm with 4 workers.
absl::Status Check(const std::string& mode) {
  Experiment experiment;
  FieldOrigins origins("file");
  EXPECT_OK(ReadText(absl::StrCat("arms { parameter_server {\n", mode, "} }"),
                     &experiment, &origins))
      << mode;
  return CheckConsistency(experiment.arms(0).parameter_server(), 4,
                          "arms[0].parameter_server", origins);
}

TEST(CheckConsistencyTest, Accepts) {
  for (const char* mode : {
           "",
           "sync { order: RANK }",
           "backup {}",
           "backup { spares: 3 }",
           "bounded {}",
           "bounded { bound: 1000000 }",
           "async {}",
           "async {} stale_updates {}",
           "placement: BY_TENSOR_SIZE",
           "async {} placement: SINGLE",
           "async {} stale_updates { scale: ONE delay_compensation: 0 drop_above: 0 }",
           "bounded { bound: 1 } stale_updates { scale: INVERSE_STALENESS }",
           "fixed_delay {}",
           "fixed_delay { delay: 8 } stale_updates { delay_compensation: 0.5 }",
       }) {
    EXPECT_OK(Check(mode)) << mode;
  }
}

// Each thing that is checked, with the whole error; the fields stand on line 2.
TEST(CheckConsistencyTest, Refuses) {
  const std::string finite = "; allowed: a finite number of at least 0";
  const std::string rounds =
      "stale_updates: the updates of this mode are rounds, and never stale; allowed: "
      "leaving it out";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"sync { order: 7 }", "sync.order: is 7; allowed: RING, RANK"},
      {"placement: 4",
       "placement: is 4; allowed: STRIPED, BY_TENSOR_ROUND_ROBIN, BY_TENSOR_SIZE, "
       "SINGLE"},
      {"backup { spares: 4 }", "backup.spares: is 4; allowed: 0 to 3"},
      {"backup { spares: -1 }", "backup.spares: is -1; allowed: 0 to 3"},
      {"bounded { bound: -1 }", "bounded.bound: is -1; allowed: 0 to 1099511627776"},
      {"fixed_delay { delay: 1001 }", "fixed_delay.delay: is 1001; allowed: 0 to 1000"},
      {"fixed_delay {} stale_updates { drop_above: 3 }",
       "stale_updates.drop_above: is set, and fixed_delay applies every contribution; "
       "allowed: leaving it out"},
      {"stale_updates {}", rounds},
      {"sync {} stale_updates { scale: ONE }", rounds},
      {"backup { spares: 1 } stale_updates { drop_above: 3 }", rounds},
      {"async {} stale_updates { scale: 7 }",
       "stale_updates.scale: is 7; allowed: MEAN, ONE, INVERSE_STALENESS"},
      {"async {} stale_updates { delay_compensation: -0.5 }",
       "stale_updates.delay_compensation: is -0.5" + finite},
      {"async {} stale_updates { delay_compensation: nan }",
       "stale_updates.delay_compensation: is nan" + finite},
      {"async {} stale_updates { delay_compensation: inf }",
       "stale_updates.delay_compensation: is inf" + finite},
      {"async {} stale_updates { drop_above: -1 }",
       "stale_updates.drop_above: is -1; allowed: at least 0"},
  };
  for (const auto& [mode, error] : cases) {
    const std::string origin = absl::StrCat("file:2: arms[0].parameter_server.", error);
    EXPECT_THAT(Check(mode), StatusIs(absl::StatusCode::kInvalidArgument, Eq(origin)))
        << mode;
  }
}

}  // namespace
}  // namespace psring
