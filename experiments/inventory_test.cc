#include "experiments/inventory.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;

ParameterLayout LayoutOf(const std::string& name, int64_t divisor = 1) {
  InventoryModel model;
  model.set_name(name);
  model.set_divisor(divisor);
  return InventoryLayout(model);
}

absl::Status Check(const std::string& settings) {
  Experiment experiment;
  FieldOrigins origins("file");
  EXPECT_OK(ReadText(absl::StrCat("model { inventory {\n", settings, "} }"), &experiment,
                     &origins));
  return CheckInventory(experiment.model().inventory(), origins);
}

TEST(InventoryTest, ParametersAndTensorsAreThoseOfTheModels) {
  const auto sizes = [](const char* name) {
    const ParameterLayout layout = LayoutOf(name);
    return std::pair(layout.count(), layout.tensors().size());
  };
  EXPECT_EQ(sizes("resnet50"), std::pair(int64_t{25'557'032}, size_t{161}));
  EXPECT_EQ(sizes("vgg16"), std::pair(int64_t{138'357'544}, size_t{32}));
  EXPECT_EQ(sizes("bert_large"), std::pair(int64_t{335'141'888}, size_t{391}));
  EXPECT_EQ(sizes("gpt2_xl"), std::pair(int64_t{1'557'611'200}, size_t{580}));
  EXPECT_EQ(sizes("llama_7b"), std::pair(int64_t{6'738'415'616}, size_t{291}));
  EXPECT_THAT(InventoryNames(),
              ElementsAre("bert_large", "gpt2_xl", "llama_7b", "resnet50", "vgg16"));
}

TEST(InventoryTest, EveryTensorHasANameOfItsOwnAndElements) {
  for (const std::string& name : InventoryNames()) {
    std::set<std::string> names;
    const ParameterLayout layout = LayoutOf(name);
    for (const Tensor& tensor : layout.tensors()) {
      EXPECT_TRUE(names.insert(tensor.name).second) << name << ": " << tensor.name;
      EXPECT_FALSE(absl::StrContains(tensor.name, "{")) << name << ": " << tensor.name;
      EXPECT_GT(tensor.range.count, 0) << name << ": " << tensor.name;
    }
  }
}

TEST(InventoryTest, BlocksAreRepeatedFromTheirFirstNumber) {
  std::vector<std::string> first_convolutions;
  const ParameterLayout layout = LayoutOf("resnet50");
  for (const Tensor& tensor : layout.tensors()) {
    if (absl::StartsWith(tensor.name, "layer2.") &&
        absl::EndsWith(tensor.name, ".conv1.weight")) {
      first_convolutions.push_back(
          absl::StrCat(tensor.name, " ", tensor.shape[0], " ", tensor.shape[1]));
    }
  }
  EXPECT_THAT(
      first_convolutions,
      ElementsAre("layer2.0.conv1.weight 128 256", "layer2.1.conv1.weight 128 512",
                  "layer2.2.conv1.weight 128 512", "layer2.3.conv1.weight 128 512"));
}

TEST(InventoryTest, ADivisorDividesEachTensorAndLeavesAtLeastOneElement) {
  const ParameterLayout whole = LayoutOf("vgg16");
  EXPECT_EQ(whole.tensors()[0].shape, (std::vector<int64_t>{64, 3, 3, 3}));
  for (const int64_t divisor : {2, 16, 1000, 1 << 30}) {
    const ParameterLayout layout = LayoutOf("vgg16", divisor);
    ASSERT_EQ(layout.tensors().size(), whole.tensors().size());
    for (size_t t = 0; t < whole.tensors().size(); ++t) {
      EXPECT_EQ(layout.tensors()[t].name, whole.tensors()[t].name);
      const int64_t expected =
          std::max<int64_t>(1, whole.tensors()[t].range.count / divisor);
      EXPECT_THAT(layout.tensors()[t].shape, ElementsAre(expected));
    }
  }
}

TEST(InventoryTest, Refuses) {
  const std::string names = "; allowed: bert_large, gpt2_xl, llama_7b, resnet50, vgg16";
  const auto is_error = [](const std::string& text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, testing::Eq(text));
  };
  EXPECT_OK(Check("name: 'vgg16'"));
  EXPECT_OK(Check("name: 'llama_7b' divisor: 1"));
  EXPECT_THAT(Check("name: 'vgg19'"),
              is_error("file:2: model.inventory.name: is 'vgg19'" + names));
  EXPECT_THAT(Check("divisor: 2"),
              is_error("file:1: model.inventory.name: missing" + names));
  EXPECT_THAT(Check("name: 'vgg16' divisor: 0"),
              is_error("file:2: model.inventory.divisor: is 0; allowed: at least 1"));
}

}  // namespace
}  // namespace psring
