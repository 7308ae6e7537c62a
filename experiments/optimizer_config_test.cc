#include "experiments/optimizer_config.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using google::protobuf::util::MessageDifferencer;
using testing::Eq;

Optimizer Parse(const std::string& text) {
  Optimizer optimizer;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &optimizer)) << text;
  return optimizer;
}

absl::Status Check(const std::string& optimizer) {
  Experiment experiment;
  FieldOrigins origins("file");
  const absl::Status read = ReadText(
      absl::StrCat("training { optimizer {\n", optimizer, "} }"), &experiment, &origins);
  EXPECT_OK(read);
  return CheckOptimizer(experiment.training().optimizer(), "training.optimizer", origins);
}

TEST(CheckOptimizerTest, Accepts) {
  for (const char* text : {
           "sgd { learning_rate: 0.1 }",
           "sgd { learning_rate: 0.1 momentum: 0.9 nesterov: true }",
           "sgd { learning_rate: 0.1 nesterov: false }",
           "adam { learning_rate: 0.1 }",
           "adam { learning_rate: 0.1 beta1: 0 beta2: 0 }",
           "adamw { learning_rate: 0.1 epsilon: 1e-5 weight_decay: 0.01 }",
           "adagrad { learning_rate: 0.1 initial_accumulator: 0.1 }",
           "adam { learning_rate: 0.1 } schedule { warmup_steps: 0 }",
           "adam { learning_rate: 0.1 } schedule { warmup_steps: 5 constant {} }",
           "adam { learning_rate: 0.1 } schedule { cosine {} }",
           "adam { learning_rate: 0.1 } schedule { cosine { steps: 1 final_factor: 1 } }",
           "adam { learning_rate: 0.1 }"
           " schedule { step_decay { every: 1 factor: 1.5 } }",
       }) {
    EXPECT_OK(Check(text)) << text;
  }
}

// Each thing that is checked, with the whole error; the fields stand on line 2.
TEST(CheckOptimizerTest, Refuses) {
  const std::string positive = "; allowed: a finite number above 0";
  const std::string not_negative = "; allowed: a finite number of at least 0";
  const std::string fraction = "; allowed: at least 0 and below 1";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"adam { beta1: 0.9 }", "adam.learning_rate: missing" + positive},
      {"adamw { learning_rate: 0 }", "adamw.learning_rate: is 0" + positive},
      {"adagrad { learning_rate: inf }", "adagrad.learning_rate: is inf" + positive},
      {"adam { learning_rate: nan }", "adam.learning_rate: is nan" + positive},
      {"adam { learning_rate: 1 beta1: 1 }", "adam.beta1: is 1" + fraction},
      {"adam { learning_rate: 1 beta1: -0.5 }", "adam.beta1: is -0.5" + fraction},
      {"adamw { learning_rate: 1 beta2: nan }", "adamw.beta2: is nan" + fraction},
      {"adam { learning_rate: 1 epsilon: 0 }", "adam.epsilon: is 0" + positive},
      {"adamw { learning_rate: 1 epsilon: -1 }", "adamw.epsilon: is -1" + positive},
      {"adamw { learning_rate: 1 weight_decay: -1 }",
       "adamw.weight_decay: is -1" + not_negative},
      {"adam { learning_rate: 1 weight_decay: inf }",
       "adam.weight_decay: is inf" + not_negative},
      {"adagrad { learning_rate: 1 epsilon: 0 }", "adagrad.epsilon: is 0" + positive},
      {"adagrad { learning_rate: 1 weight_decay: nan }",
       "adagrad.weight_decay: is nan" + not_negative},
      {"adagrad { learning_rate: 1 initial_accumulator: -0.5 }",
       "adagrad.initial_accumulator: is -0.5" + not_negative},
      {"sgd { learning_rate: 1 nesterov: true }",
       "sgd.nesterov: is true without momentum; allowed: true with a momentum above 0, "
       "or "
       "false"},
      {"sgd { learning_rate: 1 } schedule { warmup_steps: -1 }",
       "schedule.warmup_steps: is -1; allowed: at least 0"},
      {"sgd { learning_rate: 1 } schedule { cosine { steps: 0 } }",
       "schedule.cosine.steps: is 0; allowed: at least 1"},
      {"sgd { learning_rate: 1 } schedule { cosine { steps: -3 } }",
       "schedule.cosine.steps: is -3; allowed: at least 1"},
      {"sgd { learning_rate: 1 } schedule { cosine { final_factor: -0.5 } }",
       "schedule.cosine.final_factor: is -0.5; allowed: 0 to 1"},
      {"sgd { learning_rate: 1 } schedule { cosine { final_factor: nan } }",
       "schedule.cosine.final_factor: is nan; allowed: 0 to 1"},
      {"sgd { learning_rate: 1 } schedule { cosine { final_factor: 2 } }",
       "schedule.cosine.final_factor: is 2; allowed: 0 to 1"},
      {"sgd { learning_rate: 1 } schedule { step_decay { factor: 0.5 } }",
       "schedule.step_decay.every: missing; allowed: at least 1"},
      {"sgd { learning_rate: 1 } schedule { step_decay { every: 0 factor: 0.5 } }",
       "schedule.step_decay.every: is 0; allowed: at least 1"},
      {"sgd { learning_rate: 1 } schedule { step_decay { every: 9 } }",
       "schedule.step_decay.factor: missing" + positive},
      {"sgd { learning_rate: 1 } schedule { step_decay { every: 9 factor: 0 } }",
       "schedule.step_decay.factor: is 0" + positive},
      {"sgd { learning_rate: 1 } schedule { step_decay { every: 9 factor: inf } }",
       "schedule.step_decay.factor: is inf" + positive},
  };
  for (const auto& [text, error] : cases) {
    EXPECT_THAT(Check(text),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         Eq(absl::StrCat("file:2: training.optimizer.", error))))
        << text;
  }
}

TEST(FillOptimizerDefaultsTest, FillsInWhatIsLeftOut) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"sgd { learning_rate: 1 }", "sgd { learning_rate: 1 } schedule { constant {} }"},
      {"adam { learning_rate: 1 }",
       "adam { learning_rate: 1 beta1: 0.9 beta2: 0.999 epsilon: 1e-8 }"
       " schedule { constant {} }"},
      {"adamw { learning_rate: 1 beta1: 0 beta2: 0.5 epsilon: 1 }"
       " schedule { warmup_steps: 3 }",
       "adamw { learning_rate: 1 beta1: 0 beta2: 0.5 epsilon: 1 }"
       " schedule { warmup_steps: 3 constant {} }"},
      {"adagrad { learning_rate: 1 } schedule { cosine {} }",
       "adagrad { learning_rate: 1 epsilon: 1e-10 } schedule { cosine {} }"},
  };
  for (const auto& [text, filled] : cases) {
    Optimizer optimizer = Parse(text);
    FillOptimizerDefaults(&optimizer);
    EXPECT_TRUE(MessageDifferencer::Equals(optimizer, Parse(filled)))
        << optimizer.DebugString();
  }
}

TEST(DescribeOptimizerTest, SaysWhatDecidesTheLearningRate) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"sgd { learning_rate: 0.1 }", "sgd, learning rate 0.1"},
      {"adam { learning_rate: 1e-3 } schedule { constant {} }",
       "adam, learning rate 0.001"},
      {"adamw { learning_rate: 0.5 } schedule { warmup_steps: 9 }",
       "adamw, learning rate 0.5 after a warm-up of 9 steps"},
      {"adagrad { learning_rate: 0.5 } schedule { warmup_steps: 9 cosine {} }",
       "adagrad, learning rate 0.5 after a warm-up of 9 steps, then a cosine to 0 times "
       "that at the end of the run"},
      {"sgd { learning_rate: 0.5 } schedule { cosine { steps: 7 final_factor: 0.1 } }",
       "sgd, learning rate 0.5, then a cosine to 0.1 times that over 7 steps"},
      {"sgd { learning_rate: 0.5 } schedule { step_decay { every: 7 factor: 0.1 } }",
       "sgd, learning rate 0.5, then times 0.1 every 7 steps"},
  };
  for (const auto& [text, description] : cases) {
    EXPECT_EQ(DescribeOptimizer(Parse(text)), description);
  }
}

}  // namespace
}  // namespace psring
