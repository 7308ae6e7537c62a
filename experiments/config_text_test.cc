#include "experiments/config_text.h"

#include <string>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/experiment.pb.h"

namespace psring {
namespace {

using testing::ElementsAre;

constexpr char kTrainingFields[] =
    "steps, epochs, global_batch, optimizer, seed, evaluation_interval, "
    "target_accuracy, digest_interval, seeds, non_finite, micro_batches, uneven, "
    "unused_parameters";

auto IsError(const std::string& message) {
  return StatusIs(absl::StatusCode::kInvalidArgument, testing::Eq(message));
}

absl::Status Read(const std::string& text) {
  Experiment experiment;
  FieldOrigins origins("f.txt");
  return ReadText(text, &experiment, &origins);
}

TEST(ReadTextTest, NotesTheLineOfEveryField) {
  Experiment experiment;
  FieldOrigins origins("f.txt");
  ASSERT_OK(
      ReadText("name: 'x'\n"
               "model {\n"
               "  mlp { hidden: [1,\n"
               "    2] }\n"
               "}\n"
               "arms { name: 'a' }\n"
               "arms {\n"
               "  cluster { workers: 0 }\n"
               "}\n",
               &experiment, &origins));
  const auto at = [&](const std::string& path) {
    return std::string(origins.Error(path, "bad", "good").message());
  };
  EXPECT_EQ(at("name"), "f.txt:1: name: bad; allowed: good");
  EXPECT_EQ(at("model.mlp"), "f.txt:3: model.mlp: bad; allowed: good");
  EXPECT_EQ(at("model.mlp.hidden[1]"),
            "f.txt:3: model.mlp.hidden[1]: bad; allowed: good");
  EXPECT_EQ(at("arms[0].name"), "f.txt:6: arms[0].name: bad; allowed: good");
  EXPECT_EQ(at("arms[1].cluster.workers"),
            "f.txt:8: arms[1].cluster.workers: bad; allowed: good");
  // Not written: the message round it, or the whole file.
  EXPECT_EQ(at("arms[1].name"), "f.txt:7: arms[1].name: bad; allowed: good");
  EXPECT_EQ(at("training.steps"), "f.txt:1: training.steps: bad; allowed: good");
  EXPECT_TRUE(origins.Has("arms[1].cluster.workers"));
  EXPECT_FALSE(origins.Has("arms[1].cluster.servers"));
}

TEST(ReadTextTest, UnknownField) {
  EXPECT_THAT(Read("name: 'x'\n\n  nmae: 'y'"),
              IsError("f.txt:3: nmae: no such field; allowed: name, model, data, "
                      "training, cluster, buckets, on_failure, arms, inject, liveness, "
                      "ring_order, compute, expect, checkpoint, device"));
  EXPECT_THAT(Read("name: 'x'\ntraining {\n  seed: 1\n  stpes: 5\n}"),
              IsError(std::string("f.txt:4: training.stpes: no such field; allowed: ") +
                      kTrainingFields));
  EXPECT_THAT(
      Read("arms { name: 'a' ring {} }\n"
           "arms { cluster { workers: 2 } mode: 1 }"),
      IsError("f.txt:2: arms[1].mode: no such field; allowed: name, "
              "parameter_server, ring, local, cluster, optimizer, buckets, wire"));
  EXPECT_THAT(Read("arms { ring { speed: 1 } }"),
              IsError("f.txt:1: arms[0].ring.speed: no such field; allowed: "
                      "transport, algorithm, connections, spin, "
                      "choices, sharded_optimizer"));
}

// A list in brackets has one location for all its elements: finished messages in it must
// not be taken for the place of a later error.
TEST(ReadTextTest, UnknownFieldBehindAListOfMessages) {
  EXPECT_THAT(Read("arms: [{ name: 'a' }, { name: 'b' }]\n"
                   "training { stpes: 1 }"),
              IsError(std::string("f.txt:2: training.stpes: no such field; allowed: ") +
                      kTrainingFields));
}

TEST(ReadTextTest, UnknownEnumValue) {
  EXPECT_THAT(Read("on_failure: EXPLODE"),
              IsError("f.txt:1: on_failure: not a value of this field (Unknown "
                      "enumeration value of \"EXPLODE\" for field \"on_failure\".); "
                      "allowed: STOP"));
  EXPECT_THAT(
      Read("arms {\n  parameter_server {\n    sync { order: FASTEST }\n  }\n}"),
      IsError("f.txt:3: arms[0].parameter_server.sync.order: not a value of this field "
              "(Unknown enumeration value of \"FASTEST\" for field \"order\".); allowed: "
              "RING, RANK"));
}

TEST(ReadTextTest, ValueOfAnotherKind) {
  EXPECT_THAT(Read("training {\n\tseed: 1\tsteps: many\n}"),
              IsError("f.txt:2: training.steps: not a value of this field (Expected "
                      "integer, got: many); allowed: a whole number"));
  EXPECT_THAT(Read("training { seed: -1 }"),
              IsError("f.txt:1: training.seed: not a value of this field (Expected "
                      "integer, got: -); allowed: a whole number of at least 0"));
  EXPECT_THAT(Read("name: 5"),
              IsError("f.txt:1: name: not a value of this field (Expected string, got: "
                      "5); allowed: a text in quotes"));
  EXPECT_THAT(Read("model { mlp { hidden: [1, x] } }"),
              IsError("f.txt:1: model.mlp.hidden: not a value of this field (Expected "
                      "integer, got: x); allowed: a whole number"));
}

TEST(ReadTextTest, OtherErrorsKeepTheParsersWords) {
  EXPECT_THAT(Read("training {\n  seed: 1\n  steps 5\n}"),
              IsError("f.txt:3: training: Expected \":\", found \"5\"."));
  EXPECT_THAT(Read("name: 'a'\nname: 'b'"),
              IsError("f.txt:2: Non-repeated field \"name\" is specified multiple "
                      "times."));
  EXPECT_THAT(Read("training { steps: 1\nepochs: 1 }"),
              IsError("f.txt:2: training: Field \"epochs\" is specified along with field "
                      "\"steps\", another member of oneof \"length\"."));
}

class ApplyOverrideTest : public testing::Test {
 protected:
  ApplyOverrideTest() : origins_("f.txt") {
    EXPECT_OK(
        ReadText("model { mlp { hidden: [1, 2, 3] } }\n"
                 "training { epochs: 5 seed: 9 }\n"
                 "arms { name: 'a' }\n"
                 "arms { name: 'b' cluster { workers: 4 } }\n",
                 &experiment_, &origins_));
  }

  absl::Status Apply(const std::string& assignment) {
    return ApplyOverride(assignment, &experiment_, &origins_);
  }

  Experiment experiment_;
  FieldOrigins origins_;
};

TEST_F(ApplyOverrideTest, MemberOfAOneofReplacesItsSibling) {
  ASSERT_OK(Apply("training.steps=50"));
  EXPECT_EQ(experiment_.training().length_case(), Training::kSteps);
  EXPECT_EQ(experiment_.training().steps(), 50);
  EXPECT_EQ(experiment_.training().seed(), 9);
  ASSERT_OK(Apply("arms[0].ring={}"));
  ASSERT_OK(Apply("arms[0].parameter_server.sync.order=RANK"));
  EXPECT_EQ(experiment_.arms(0).mode_case(), Arm::kParameterServer);
  EXPECT_EQ(experiment_.arms(0).parameter_server().sync().order(), Sync::RANK);
}

TEST_F(ApplyOverrideTest, ElementsAndLists) {
  ASSERT_OK(Apply("arms[1].cluster.servers=2"));
  EXPECT_EQ(experiment_.arms(1).cluster().servers(), 2);
  EXPECT_EQ(experiment_.arms(1).cluster().workers(), 4);
  ASSERT_OK(Apply("model.mlp.hidden=[256,128]"));
  EXPECT_THAT(experiment_.model().mlp().hidden(), ElementsAre(256, 128));
  ASSERT_OK(Apply("model.mlp.hidden=7"));
  EXPECT_THAT(experiment_.model().mlp().hidden(), ElementsAre(7));
  ASSERT_OK(Apply("inject.slow_worker=[{rank: 1 factor: 2.5}]"));
  EXPECT_EQ(experiment_.inject().slow_worker(0).factor(), 2.5);
  ASSERT_OK(Apply("arms=[]"));
  EXPECT_EQ(experiment_.arms_size(), 0);
}

TEST_F(ApplyOverrideTest, ZeroReplacesANumberAndTheLastOneWins) {
  ASSERT_OK(Apply("training.seed=3"));
  EXPECT_EQ(experiment_.training().seed(), 3);
  ASSERT_OK(Apply("training.seed=0"));
  EXPECT_EQ(experiment_.training().seed(), 0);
}

TEST_F(ApplyOverrideTest, StringsGoWithOrWithoutQuotes) {
  ASSERT_OK(Apply("data.fashion_mnist.directory=/data/a=b.c"));
  EXPECT_EQ(experiment_.data().fashion_mnist().directory(), "/data/a=b.c");
  ASSERT_OK(Apply("name=\"quoted\""));
  EXPECT_EQ(experiment_.name(), "quoted");
  ASSERT_OK(Apply("name="));
  EXPECT_EQ(experiment_.name(), "");
}

TEST_F(ApplyOverrideTest, BecomesTheOrigin) {
  ASSERT_OK(Apply("arms[1].cluster={workers: 3}"));
  EXPECT_THAT(origins_.Error("arms[1].cluster.workers", "bad", "good"),
              IsError("--set arms[1].cluster={workers: 3}: arms[1].cluster.workers: bad; "
                      "allowed: good"));
  EXPECT_FALSE(origins_.Has("arms[1].cluster.servers"));
  EXPECT_THAT(origins_.Error("arms[1].name", "bad", "good"),
              IsError("f.txt:4: arms[1].name: bad; allowed: good"));
}

TEST_F(ApplyOverrideTest, Errors) {
  const auto expect = [this](const std::string& assignment, const std::string& error) {
    EXPECT_THAT(Apply(assignment), IsError("--set " + assignment + ": " + error));
  };
  expect("training.steps", "no '='; allowed: field.path=value");
  expect("training.stpes=5",
         std::string("training.stpes: no such field; allowed: ") + kTrainingFields);
  EXPECT_THAT(Apply("training.st\x1b\n=5"),
              IsError(std::string("--set training.st\\x1b\\n=5: training.st\\x1b\\n: no "
                                  "such field; allowed: ") +
                      kTrainingFields));
  expect("arm[0].name=x",
         "arm[0]: no such field; allowed: name, model, data, training, cluster, buckets, "
         "on_failure, arms, inject, liveness, ring_order, compute, expect, "
         "checkpoint, device");
  expect("=5",
         "no such field; allowed: name, model, data, training, cluster, buckets, "
         "on_failure, arms, inject, liveness, ring_order, compute, expect, "
         "checkpoint, device");
  expect("arms[2].name=x",
         "arms[2]: not one of the 2 elements of this list; allowed: arms[0] to arms[1]");
  expect("arms.name=x",
         "arms: not one of the 2 elements of this list; allowed: arms[0] to arms[1]");
  expect("inject.slow_worker[0].rank=1",
         "inject.slow_worker[0]: not one of the 0 elements of this list; allowed: "
         "slow_worker=[...]");
  expect("arms[x].name=y",
         "arms[x]: not a name and an index; allowed: name, name[0], ...");
  expect("training[0].seed=1", "training[0]: not a list; allowed: training");
  expect("model.mlp.hidden[0]=5",
         "model.mlp.hidden[0]: one element of a list; allowed: the whole list, "
         "hidden=[...]");
  expect("training.seed.low=5", "training.seed: has no fields; allowed: seed=...");
  expect("training.steps=many",
         "training.steps: not a value of this field (Expected integer, got: many); "
         "allowed: a whole number");
  expect("on_failure=EXPLODE",
         "on_failure: not a value of this field (Unknown enumeration value of "
         "\"EXPLODE\" for field \"on_failure\".); allowed: STOP");
  expect("arms[0].cluster={wrokers: 1}",
         "arms[0].cluster.wrokers: no such field; allowed: workers, servers, hosts");
  expect("training.steps=5 seed: 1",
         "training.steps: more than one value; allowed: a whole number");
}

}  // namespace
}  // namespace psring
