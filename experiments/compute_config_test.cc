#include "experiments/compute_config.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;

// On the lines below; 3 ranks.
absl::Status Check(const std::string& text) {
  Experiment experiment;
  FieldOrigins origins("file");
  EXPECT_OK(ReadText(absl::StrCat("\n", text), &experiment, &origins)) << text;
  return CheckCompute(experiment, /*ranks=*/3, origins);
}

absl::Status CheckEmulated(const std::string& settings, const std::string& more = "") {
  return Check(absl::StrCat("compute { emulated {", settings, "} } ", more));
}

absl::Status CheckTensors(const std::string& text) {
  Experiment experiment;
  FieldOrigins origins("file");
  EXPECT_OK(
      ReadText(absl::StrCat("model { tensors {\n", text, "} }"), &experiment, &origins))
      << text;
  return CheckTensorList(experiment.model().tensors(), origins);
}

auto IsError(const std::string& text) {
  return StatusIs(absl::StatusCode::kInvalidArgument,
                  testing::Eq(absl::StrCat("file:2: ", text)));
}

TEST(ComputeConfigTest, Accepts) {
  for (const char* text :
       {"", "compute { real {} }", "compute { padded { step_ms: 0.5 } }",
        "compute { emulated {} }", "compute { emulated { jitter: 0.999 } }",
        "compute { emulated { forward_ms: 1 rank_factor { rank: 2 factor: 0.1 } } }",
        "model { tensors {} } compute { emulated {} } training { steps: 3 } data {}",
        "model { inventory {} } compute { emulated {} } training { steps: 3 } data {}",
        "data { fashion_mnist {} } compute { emulated {} } training { epochs: 3 }",
        "compute { padded { step_ms: 29999 } }"}) {
    EXPECT_OK(Check(text)) << text;
  }
}

TEST(ComputeConfigTest, RefusesTimesThatAreNone) {
  EXPECT_THAT(Check("compute { padded {} }"),
              IsError("compute.padded.step_ms: missing; allowed: a finite number above "
                      "0"));
  EXPECT_THAT(Check("compute { padded { step_ms: nan } }"),
              IsError("compute.padded.step_ms: is nan; allowed: a finite number above "
                      "0"));
  EXPECT_THAT(
      CheckEmulated("forward_ms: -1"),
      IsError("compute.emulated.forward_ms: is -1; allowed: a finite number of at "
              "least 0"));
  EXPECT_THAT(CheckEmulated("backward_ms: inf"),
              IsError("compute.emulated.backward_ms: is inf; allowed: a finite number of "
                      "at least 0"));
  EXPECT_THAT(CheckEmulated("jitter: 1"),
              IsError("compute.emulated.jitter: is 1; allowed: at least 0 and below 1"));
}

TEST(ComputeConfigTest, RefusesRanksThatSomeArmLacks) {
  EXPECT_THAT(CheckEmulated("rank_factor { rank: 3 factor: 2 }"),
              IsError("compute.emulated.rank_factor[0].rank: is 3; allowed: 0 to 2, the "
                      "ranks that all arms have"));
  EXPECT_THAT(CheckEmulated("rank_factor { factor: 2 } rank_factor { factor: 2 }"),
              IsError("compute.emulated.rank_factor[1].rank: rank 0 is named twice; "
                      "allowed: each rank once"));
  EXPECT_THAT(
      CheckEmulated("rank_factor { rank: 1 }"),
      IsError("compute.emulated.rank_factor[0].factor: missing; allowed: a finite "
              "number above 0"));
}

TEST(ComputeConfigTest, RefusesStepsThatWouldBeTakenForAStall) {
  EXPECT_THAT(
      Check("compute { padded { step_ms: 30000 } }"),
      IsError("compute.padded.step_ms: a step takes up to 30s; allowed: less than "
              "liveness.stall_seconds, 30s"));
  EXPECT_THAT(CheckEmulated("forward_ms: 500 backward_ms: 500 jitter: 0.5 "
                            "rank_factor { factor: 4 }",
                            "inject { slow_worker { factor: 2 } } "
                            "liveness { stall_seconds: 12 }"),
              IsError("compute.emulated: a step takes up to 12s; allowed: less than "
                      "liveness.stall_seconds, 12s"));
}

TEST(ComputeConfigTest, RefusesToTrainNothing) {
  EXPECT_THAT(Check("model { tensors {} }"),
              IsError("model.tensors: has nothing to compute; allowed: with compute { "
                      "emulated { } }, else mlp"));
  EXPECT_THAT(Check("model { inventory {} }"),
              IsError("model.inventory: has nothing to compute; allowed: with compute { "
                      "emulated { } }, else mlp"));
  EXPECT_THAT(CheckEmulated("", "model { inventory {} } data { fashion_mnist {} }"),
              IsError("data: model.inventory looks at no data; allowed: leaving it out"));
  EXPECT_THAT(CheckEmulated("", "model { inventory {} } training { epochs: 1 }"),
              IsError("training.epochs: there is no data set to pass over; allowed: "
                      "steps"));
  EXPECT_THAT(CheckEmulated("", "training { target_accuracy: 0.5 }"),
              IsError("training.target_accuracy: with emulated compute nothing is "
                      "learned; allowed: leaving it out"));
  EXPECT_THAT(CheckEmulated("", "training { evaluation_interval: 5 }"),
              IsError("training.evaluation_interval: with emulated compute nothing is "
                      "learned; allowed: leaving it out"));
  EXPECT_THAT(CheckEmulated("", "model { tensors {} } data { fashion_mnist {} }"),
              IsError("data: model.tensors looks at no data; allowed: leaving it out"));
  EXPECT_THAT(CheckEmulated("", "model { tensors {} } training { epochs: 1 }"),
              IsError("training.epochs: there is no data set to pass over; allowed: "
                      "steps"));
}

TEST(TensorListTest, Limits) {
  EXPECT_OK(CheckTensors("elements: 1"));
  EXPECT_OK(CheckTensors("elements: [1073741823, 1]"));
  EXPECT_OK(CheckTensors("elements: 10737 repeat: 100000"));
  EXPECT_THAT(CheckTensors(""),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::HasSubstr("model.tensors.elements: missing; allowed: a "
                                          "list of numbers of elements")));
  EXPECT_THAT(CheckTensors("elements: [1, 0]"),
              IsError("model.tensors.elements[1]: is 0; allowed: at least 1, and at most "
                      "1073741824 over all tensors"));
  EXPECT_THAT(CheckTensors("elements: [1073741824, 1]"),
              IsError("model.tensors.elements[1]: is 1; allowed: at least 1, and at most "
                      "1073741824 over all tensors"));
  EXPECT_THAT(CheckTensors("elements: 1 repeat: 0"),
              IsError("model.tensors.repeat: is 0; allowed: 1 to 100000"));
  EXPECT_THAT(CheckTensors("elements: [500000000, 4] repeat: 3"),
              IsError("model.tensors.repeat: is 3; allowed: 1 to 2"));
}

TEST(TensorListTest, IsRepeatedAsAWhole) {
  TensorList tensors;
  tensors.add_elements(7);
  tensors.add_elements(2);
  tensors.set_repeat(2);
  const ParameterLayout layout = TensorListLayout(tensors);
  EXPECT_EQ(layout.count(), 18);
  std::vector<std::string> described;
  for (const Tensor& tensor : layout.tensors()) {
    ASSERT_EQ(tensor.shape.size(), 1);
    described.push_back(absl::StrCat(tensor.name, " ", tensor.shape[0]));
  }
  EXPECT_THAT(described, ElementsAre("tensor0 7", "tensor1 2", "tensor2 7", "tensor3 2"));
}

// What can be planned but not trained.
TEST(ComputeConfigTest, AnInventoryMayBeTooLargeToRun) {
  JobSpec spec;
  const auto add = [&spec](int64_t rows, int64_t columns) {
    TensorSpec& tensor = *spec.add_tensors();
    tensor.add_shape(rows);
    tensor.add_shape(columns);
  };
  add(1 << 20, 1 << 10);
  InventoryModel& model =
      *spec.mutable_experiment()->mutable_model()->mutable_inventory();
  model.set_name("large");
  model.set_divisor(3);
  EXPECT_OK(CheckSizeToRun(spec));
  add(1, 1);
  EXPECT_THAT(CheckSizeToRun(spec),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::Eq("model.inventory: large has 1073741825 elements; "
                                   "allowed: to be trained at most 1073741824, as with a "
                                   "divisor of 4; --dry-run takes any")));
  spec.mutable_experiment()->mutable_model()->mutable_mlp();
  EXPECT_OK(CheckSizeToRun(spec));
}

TEST(ComputeConfigTest, DefaultsAndWords) {
  Experiment experiment;
  FillComputeDefaults(&experiment);
  EXPECT_TRUE(experiment.compute().has_real());
  EXPECT_FALSE(experiment.model().has_tensors());
  EXPECT_EQ(DescribeCompute(experiment.compute()), "real");
  experiment.mutable_model()->mutable_tensors();
  experiment.mutable_compute()->mutable_padded()->set_step_ms(20);
  FillComputeDefaults(&experiment);
  EXPECT_EQ(experiment.model().tensors().repeat(), 1);
  EXPECT_FALSE(experiment.model().has_inventory());
  EXPECT_EQ(DescribeCompute(experiment.compute()), "padded to 20 ms");
  Compute::Emulated& emulated = *experiment.mutable_compute()->mutable_emulated();
  emulated.set_forward_ms(2.5);
  emulated.set_backward_ms(5);
  EXPECT_EQ(DescribeCompute(experiment.compute()),
            "emulated, 2.5 ms forward and 5 ms backward");
  emulated.set_jitter(0.05);
  RankFactor& slow = *emulated.add_rank_factor();
  slow.set_rank(1);
  slow.set_factor(1.5);
  EXPECT_EQ(DescribeCompute(experiment.compute()),
            "emulated, 2.5 ms forward and 5 ms backward, jitter 5 %, worker 1 times 1.5");
}

}  // namespace
}  // namespace psring
