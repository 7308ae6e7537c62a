// What a step is made of, as a user sets it: epochs that do not come out even, passes,
// branches that a worker does not use.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/end_to_end_test_util.h"
#include "tests/subprocess.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Optional;

// Three batches of 60,000 samples, and then 12,000, which are three workers' parts.
class StepEndToEndTest : public EndToEndTest {
 protected:
  std::string Config() const {
    return Write("config.textproto", R"(
        name: "steps"
        model { mlp { hidden: [16] branches: 2 } }
        data { fashion_mnist {} }
        training {
          epochs: 1
          global_batch: 16000
          micro_batches: 4
          uneven: JOIN
          optimizer { sgd { learning_rate: 0.1 momentum: 0.9 } }
          digest_interval: 1
        }
        cluster { workers: 4 servers: 2 }
        buckets { cap_bytes: 20000 first_cap_bytes: 1000 }
        arms { name: "servers" parameter_server {} }
        arms { name: "ring" ring {} })");
  }
};

TEST_F(StepEndToEndTest, ArmsAreEqualAndEverySampleIsUsedOnce) {
  const auto psring = Start("compare", Config());
  ASSERT_THAT(psring->Wait(kPatience), Optional(0)) << psring->err();
  EXPECT_THAT(
      psring->err(),
      AllOf(HasSubstr("reduce (servers, ring): mean over 4 workers of 4000 samples each "
                      "in 4 passes, global batch 16000, effective learning rate 0.1\n"),
            HasSubstr("uneven (servers, ring): join, the last step of an epoch has 3 of "
                      "4 workers, and its mean is over them, 0 samples left out\n")));
  const nlohmann::json summary = Summary();
  EXPECT_EQ(summary["arms"][0]["parameter_digest"],
            summary["arms"][1]["parameter_digest"]);
  for (const nlohmann::json& arm : summary["arms"]) {
    EXPECT_EQ(arm["steps"], 4);
    EXPECT_EQ(arm["certificates"]["replica"], "PASS");
    EXPECT_EQ(arm["certificates"]["traffic"], "PASS");
    EXPECT_EQ(arm["verdict"], "finished");
    EXPECT_TRUE(arm["final_loss"].is_number());
  }
  EXPECT_THAT(Query("SELECT sum(samples) FROM steps GROUP BY run, rank"),
              ElementsAre(16000, 16000, 16000, 12000, 16000, 16000, 16000, 12000));
  EXPECT_THAT(Query("SELECT rank FROM steps WHERE samples = 0 AND step = 3 AND "
                    "loss IS NULL AND forward_ns = 0 ORDER BY run"),
              ElementsAre(3, 3));
  EXPECT_EQ(QueryOne("SELECT count(*) FROM steps WHERE total_ns < data_ns + forward_ns + "
                     "backward_ns + exposed_ns + optimizer_ns"),
            0);
}

// Some pass of a worker goes through each branch, unless all first labels are alike; a
// single pass never does.
TEST_F(StepEndToEndTest, ABranchThatIsNotUsedMayBeAnError) {
  const auto psring = Start(
      "compare", Config(),
      {"--set", "training.micro_batches=1", "--set", "training.unused_parameters=ERROR"});
  EXPECT_THAT(psring->Wait(kPatience), Optional(1)) << psring->err();
  EXPECT_THAT(
      psring->err(),
      testing::ContainsRegex("arm servers: .*rank [0-3] has made no use of "
                             "layer0.branch([01]).weight, layer0.branch([01]).bias in "
                             "step 0, and training.unused_parameters is ERROR"));
}

}  // namespace
}  // namespace psring
