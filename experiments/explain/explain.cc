#include "experiments/explain/explain.h"

#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/status/statusor.h"
#include "common/status_macros.h"
#include "experiments/explain/collective_story.h"
#include "experiments/explain/parameter_server_story.h"
#include "experiments/explain/story.h"

namespace psring {
namespace {

struct ExplainOptions {
  std::string subject;
  int ranks = 4;
  int64_t elements = 12;
};

absl::Status Explain(const ExplainOptions& options) {
  ASSIGN_OR_RETURN(const Story story,
                   options.subject == "parameter_server"
                       ? TellParameterServer(options.ranks, options.elements)
                       : TellAllReduce(options.subject, options.ranks, options.elements));
  std::cout << Tell(story) << std::flush;
  return absl::OkStatus();
}

}  // namespace

void AddExplainCommand(CLI::App* app, std::function<absl::Status()>* chosen) {
  const auto options = std::make_shared<ExplainOptions>();
  CLI::App* explain = app->add_subcommand(
      "explain", "Shows step by step how an exchange moves a few values");
  std::vector<std::string> subjects = AllReduceSubjects();
  subjects.push_back("parameter_server");
  explain->add_option("subject", options->subject, "What to explain")
      ->required()
      ->check(CLI::IsMember(subjects));
  explain->add_option("--ranks", options->ranks, "Workers")
      ->capture_default_str()
      ->check(CLI::Range(2, kMostStoryRanks));
  explain->add_option("--elements", options->elements, "Values that each worker has")
      ->capture_default_str()
      ->check(CLI::Range(1, 10'000));
  explain->callback([=] { *chosen = [=] { return Explain(*options); }; });
}

}  // namespace psring
