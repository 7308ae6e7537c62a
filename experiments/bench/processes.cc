#include "experiments/bench/processes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace psring {

void ContestantProcesses::Add(const std::string& folder, const std::string& which,
                              std::vector<std::string> arguments) {
  Process& process = processes.emplace_back();
  process.name = which.empty() ? name : absl::StrCat(name, ", ", which);
  process.arguments = std::move(arguments);
  process.log = absl::StrCat(
      folder, "/", absl::StrReplaceAll(process.name, {{",", ""}, {" ", "-"}}), ".log");
}

BenchRanks EqualRanks(int ranks) {
  BenchRanks all;
  for (int rank = 0; rank < ranks; ++rank) {
    all.names.push_back(absl::StrCat("rank ", rank));
  }
  return all;
}

BenchRanks ServersAndWorkers(int servers, int workers) {
  BenchRanks all{.names = {}, .servers = servers};
  for (int server = 0; server < servers; ++server) {
    all.names.push_back(absl::StrCat("server ", server));
  }
  for (int worker = 0; worker < workers; ++worker) {
    all.names.push_back(absl::StrCat("worker ", worker));
  }
  return all;
}

}  // namespace psring
