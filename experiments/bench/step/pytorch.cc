#include "experiments/bench/step/pytorch.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "common/errors.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"

namespace psring {
namespace {

// To start Python, load the libraries, and find the other ranks.
constexpr absl::Duration kStartPatience = absl::Minutes(2);
// For one step, of the largest model on the slowest machine.
constexpr absl::Duration kStepPatience = absl::Seconds(10);

absl::Status Missing(absl::string_view why) {
  return WithExitCode(
      absl::FailedPreconditionError(absl::StrCat("--against pytorch: ", why)),
      ExitCode::kSkipped);
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string LastLine(const std::string& text) {
  const std::vector<std::string> lines =
      absl::StrSplit(absl::StripAsciiWhitespace(text), '\n');
  return lines.back();
}

struct RankResult {
  RankSteps steps;
  uint32_t digest = 0;
};

absl::StatusOr<RankResult> ReadResult(const std::string& path) {
  try {
    const nlohmann::json json = nlohmann::json::parse(ReadAll(path));
    RankResult result;
    for (const nlohmann::json& step : json.at("steps")) {
      result.steps.steps.push_back({.total_ns = step.at(0),
                                    .forward_ns = step.at(1),
                                    .backward_ns = step.at(2),
                                    .exposed_ns = std::nullopt,
                                    .optimizer_ns = step.at(3)});
    }
    result.steps.losses = json.at("losses").get<std::vector<double>>();
    result.digest = json.at("digest").get<uint32_t>();
    if (result.steps.losses.size() == result.steps.steps.size()) return result;
    return absl::InternalError(absl::StrCat(path, ": a step without a loss"));
  } catch (const nlohmann::json::exception& error) {
    return absl::InternalError(absl::StrCat(path, ": ", error.what()));
  }
}

}  // namespace

absl::StatusOr<Pytorch> Pytorch::Find(Programs programs, ChildProcesses* children) {
  std::error_code error;
  if (!std::filesystem::exists(programs.python, error)) {
    return Missing(absl::StrCat("there is no ", programs.python,
                                "; install python3-torch and libopenblas0-pthread"));
  }
  Pytorch found(std::move(programs), children);
  const std::string name = "pytorch version";
  RETURN_IF_ERROR(
      children->Start(name, {found.programs_.python, found.programs_.rank, "--version"},
                      found.LogOf(name)));
  const absl::Status ended = found.AwaitEnd(kStartPatience);
  if (absl::IsCancelled(ended)) return ended;
  const std::string answer = LastLine(ReadAll(found.LogOf(name)));
  if (!ended.ok()) return Missing(answer.empty() ? ended.message() : answer);
  found.version_ = answer;
  return found;
}

absl::StatusOr<std::vector<RankSteps>> Pytorch::Run(const StepBenchOptions& options,
                                                    const StepContestant& contestant,
                                                    const std::string& data, int round) {
  const std::string stem =
      absl::StrCat(programs_.folder, "/", contestant.name(), "-round-", round);
  const auto result_of = [&](int rank) {
    return absl::StrCat(stem, "-rank-", rank, ".json");
  };
  const int64_t steps = StepsOfRound(options);
  for (int rank = 0; rank < contestant.ranks; ++rank) {
    const std::string name = absl::StrCat(contestant.name(), ", rank ", rank);
    RETURN_IF_ERROR(children_->Start(
        name, {programs_.python,  programs_.rank,
               "--rank",          absl::StrCat(rank),
               "--ranks",         absl::StrCat(contestant.ranks),
               "--model",         options.model,
               "--batch",         absl::StrCat(options.batch),
               "--cap",           absl::StrCat(contestant.cap_bytes.value_or(0)),
               "--steps",         absl::StrCat(steps),
               "--learning-rate", absl::StrCat(kStepLearningRate),
               "--momentum",      absl::StrCat(kStepMomentum),
               "--data",          data,
               "--store",         absl::StrCat(stem, ".store"),
               "--result",        result_of(rank)},
        LogOf(name)));
  }
  RETURN_IF_ERROR(AwaitEnd(kStartPatience + steps * kStepPatience));
  std::vector<RankSteps> ranks;
  uint32_t first_digest = 0;
  for (int rank = 0; rank < contestant.ranks; ++rank) {
    ASSIGN_OR_RETURN(RankResult result, ReadResult(result_of(rank)));
    if (rank == 0) first_digest = result.digest;
    if (result.digest != first_digest) {
      return CheckFailedError(absl::StrCat(contestant.name(), ": rank ", rank,
                                           " has ended with other parameters than rank "
                                           "0"));
    }
    ranks.push_back(std::move(result.steps));
  }
  return ranks;
}

absl::Status Pytorch::AwaitEnd(absl::Duration patience) {
  const auto deadline = SteadyDeadline(patience);
  absl::Status status;
  while (children_->running() && status.ok()) {
    const absl::Duration left =
        absl::FromChrono(deadline - std::chrono::steady_clock::now());
    if (left <= absl::ZeroDuration()) {
      status = PeerLostError(
          absl::StrCat("did not end within ", absl::FormatDuration(patience), ": ",
                       absl::StrJoin(children_->RunningNames(), "; ")));
      break;
    }
    const ChildProcesses::Event event = children_->Wait(left);
    if (event.signal) status = SignalError(*event.signal);
    for (const EndedChild& child : event.ended) {
      if (child.exit_code == 0 || !status.ok()) continue;
      status = PeerLostError(
          absl::StrCat(child.name, " ", child.how, "; its log: ", LogOf(child.name)));
    }
  }
  if (!status.ok()) children_->KillAll();
  return status;
}

std::string Pytorch::LogOf(const std::string& process) const {
  return absl::StrCat(programs_.folder, "/",
                      absl::StrReplaceAll(process, {{",", ""}, {" ", "-"}}), ".log");
}

}  // namespace psring
