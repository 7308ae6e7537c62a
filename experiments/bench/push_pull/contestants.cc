#include "experiments/bench/push_pull/contestants.h"

#include "absl/strings/str_cat.h"
#include "experiments/config_text.h"

namespace psring {

std::vector<ContestantProcesses> PlanPushPullProcesses(
    const std::vector<std::string>& contestants, const PushPullJob& job,
    const std::string& program, const std::string& folder) {
  const BenchRanks ranks = ServersAndWorkers(job.servers(), job.workers());
  std::vector<ContestantProcesses> all;
  for (const std::string& contestant : contestants) {
    ContestantProcesses& processes = all.emplace_back();
    processes.name = contestant;
    processes.control = absl::StrCat(folder, "/", contestant, ".socket");
    for (int rank = 0; rank < ranks.count(); ++rank) {
      processes.Add(folder, ranks.names[rank],
                    {program, "--control", processes.control, "--contestant", contestant,
                     "--rank", absl::StrCat(rank), "--job", OnOneLine(job)});
    }
  }
  return all;
}

}  // namespace psring
