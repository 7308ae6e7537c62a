// The processes that take part in a benchmark. Pure.
#ifndef PSRING_EXPERIMENTS_BENCH_PROCESSES_H_
#define PSRING_EXPERIMENTS_BENCH_PROCESSES_H_

#include <string>
#include <vector>

namespace psring {

struct ContestantProcesses {
  struct Process {
    std::string name;                    // "psring ring tcp, rank 0"
    std::vector<std::string> arguments;  // The first is the program.
    std::string log;
  };

  std::string name;     // "psring ring tcp"
  std::string control;  // Where its ranks find the launcher (channel.h).
  // A process for each rank, by rank, or one that starts them all.
  std::vector<Process> processes;

  // Appends a process whose name is the contestant's and ", " and `which`, and whose log
  // is in the folder.
  void Add(const std::string& folder, const std::string& which,
           std::vector<std::string> arguments);
};

// What the ranks of every contestant are.
struct BenchRanks {
  std::vector<std::string> names;  // By rank: "rank 0", "server 0".
  // The first so many serve the others: they are told of sizes, not to measure.
  int servers = 0;

  int count() const { return static_cast<int>(names.size()); }
};

BenchRanks EqualRanks(int ranks);
// "server 0", ..., "worker 0", ...
BenchRanks ServersAndWorkers(int servers, int workers);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_PROCESSES_H_
