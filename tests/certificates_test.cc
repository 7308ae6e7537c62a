// What the certificates of a run find, and what they do not mind.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

// The model has 784 * 16 weights and 16 biases of layer 0, 16 * 10 and 10 of layer 1.
constexpr int64_t kLayer1Weight = 784 * 16 + 16;

class CertificatesTest : public EndToEndTest {
 protected:
  // Steps of a run in which not all ranks have the same digest.
  std::vector<double> UnequalSteps(int run) const {
    return Query(absl::StrCat("SELECT step FROM digests WHERE run = ", run,
                              " GROUP BY step HAVING count(DISTINCT digest) > 1"));
  }
};

// On servers the next answer overwrites what has happened to a worker; on a ring the
// worker goes on from it.
TEST_F(CertificatesTest, AFlippedBitIsFoundInItsStepRankAndTensor) {
  const auto psring = Start("compare", Config(8),
                            {"--set", "cluster.workers=3", "--set",
                             absl::StrCat("inject.flip_bit=[{rank: 1 step: 5 element: ",
                                          kLayer1Weight + 40, " bit: 3}]")});
  EXPECT_THAT(psring->Wait(kPatience), Optional(3)) << psring->err();
  constexpr char kWhy[] =
      "rank 1 differs from the others at step 5, in tensor layer1.weight";
  EXPECT_THAT(psring->err(),
              AllOf(HasSubstr("injected: worker 1: bit 3 of parameter 12600 flips after "
                              "step 5"),
                    HasSubstr(absl::StrCat("arm servers, seed 1: ", kWhy))));
  EXPECT_THAT(
      psring->out(),
      AllOf(HasSubstr(absl::StrCat("replica FAIL                servers: ", kWhy)),
            HasSubstr(absl::StrCat("replica FAIL                ring: ", kWhy))));
  EXPECT_THAT(UnequalSteps(1), ElementsAre(5));
  EXPECT_THAT(UnequalSteps(2), ElementsAre(5, 6, 7));
  // Nothing is kept of what came after it.
  EXPECT_THAT(Query("SELECT count(*) FROM tensor_digests WHERE step = 5 AND tensor = 2 "
                    "GROUP BY run"),
              ElementsAre(3, 3));
  EXPECT_EQ(QueryOne("SELECT count(*) FROM tensor_digests"), 6);
  EXPECT_EQ(QueryOne("SELECT count(*) FROM events WHERE text LIKE 'injected: bit 3%'"),
            2);
  const nlohmann::json summary = Summary();
  for (const nlohmann::json& arm : summary["arms"]) {
    EXPECT_EQ(arm["certificates"]["replica"], "FAIL");
    EXPECT_EQ(arm["certificates"]["traffic"], "PASS");
  }
}

// Of two nobody knows who is right.
TEST_F(CertificatesTest, OfTwoRanksBothAreNamed) {
  const auto psring =
      Start("run", Config(3),
            {"--arm", "ring", "--set", "inject.flip_bit=[{rank: 0 step: 2 bit: 31}]"});
  EXPECT_THAT(psring->Wait(kPatience), Optional(3)) << psring->err();
  EXPECT_THAT(psring->err(),
              HasSubstr("ranks 0 and 1 differ at step 2, in tensor layer0.weight"));
}

// Parameters of 1e37 in both layers make a gradient that is not finite, which ends the
// arm; what was wrong before is found all the same, and comes first.
TEST_F(CertificatesTest, AFlipThatEndsTheArmIsFound) {
  std::vector<std::string> flips;
  const auto flip = [&](int64_t element) {
    flips.push_back(absl::StrCat("{rank: 2 step: 1 element: ", element, " bit: 30}"));
  };
  for (int64_t hidden = 0; hidden < 16; ++hidden) {
    flip(400 * 16 + hidden);  // From a pixel in the middle.
    flip(kLayer1Weight + hidden * 10);
  }
  const auto psring =
      Start("run", Config(100),
            {"--arm", "ring", "--set", "cluster.workers=3", "--set",
             absl::StrCat("inject.flip_bit=[", absl::StrJoin(flips, ", "), "]")});
  EXPECT_THAT(psring->Wait(kPatience), Optional(3)) << psring->err();
  EXPECT_THAT(psring->err(),
              AllOf(HasSubstr("rank 2 differs from the others at step 1, in tensors "
                              "layer0.weight and layer1.weight"),
                    HasSubstr("diverged")));
  EXPECT_EQ(Summary()["arms"][0]["verdict"], "diverged");
  EXPECT_FALSE(Summary()["arms"][0]["error"].is_null());
}

// Every mode, an optimizer with state, and snapshots.
TEST_F(CertificatesTest, MemoryIsThatOfTheFormula) {
  const auto psring = Start(
      "compare", Config(12),
      {"--set", "training.optimizer={adam {learning_rate: 0.001}}", "--set",
       "arms=[{name: 'sync' parameter_server {}},"
       "{name: 'ring' ring {}},"
       "{name: 'shared' ring {transport: SHARED_MEMORY}},"
       "{name: 'local' local {}},"
       "{name: 'backup' parameter_server {backup {spares: 1}}},"
       "{name: 'bounded' parameter_server {bounded {bound: 2}}},"
       "{name: 'async' parameter_server {async {} stale_updates {delay_compensation: "
       "0.1}}},"
       "{name: 'delay' parameter_server {fixed_delay {delay: 5}}}]"});
  ASSERT_THAT(psring->Wait(kPatience), Optional(0)) << psring->err() << psring->out();
  const nlohmann::json arms = Summary()["arms"];
  ASSERT_EQ(arms.size(), 8);
  constexpr int64_t kBytes = 12730 * 4;
  for (const nlohmann::json& arm : arms) {
    EXPECT_EQ(arm["certificates"]["memory"], "PASS") << arm["name"];
    const bool servers = arm["servers"] == 2;
    int64_t of_servers = 0;
    for (const nlohmann::json& process : arm["memory"]) {
      const bool worker = process["name"].get<std::string>().starts_with("worker");
      EXPECT_GT(process["resident_bytes"], worker ? 2 * kBytes : kBytes);
      for (const nlohmann::json& use : process["purposes"]) {
        const std::string purpose = use["purpose"];
        const int64_t bytes = use["bytes"];
        if (worker) {
          const int64_t state = servers ? 0 : 2 * kBytes;
          EXPECT_EQ(bytes, purpose == "optimizer state" ? state : kBytes) << arm["name"];
        } else if (purpose == "parameters") {
          of_servers += bytes;
        } else if (purpose == "contributions") {
          EXPECT_GT(bytes, 0);
        }
        EXPECT_EQ(bytes, QueryOne(absl::StrCat("SELECT coalesce(sum(bytes), 0) FROM "
                                               "memory JOIN runs USING (run) WHERE name "
                                               "= '",
                                               arm["name"].get<std::string>(),
                                               "' AND process = '",
                                               process["name"].get<std::string>(),
                                               "' AND purpose = '", purpose, "'")));
      }
    }
    EXPECT_EQ(of_servers, servers ? kBytes : 0) << arm["name"];
  }
}

}  // namespace
}  // namespace psring
