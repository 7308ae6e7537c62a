// Starts the contestants of a benchmark and lets them work in turn.
#ifndef PSRING_EXPERIMENTS_BENCH_CONDUCTOR_H_
#define PSRING_EXPERIMENTS_BENCH_CONDUCTOR_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "experiments/bench/channel.h"
#include "experiments/bench/processes.h"
#include "experiments/child_processes.h"
#include "proto/bench.pb.h"

namespace psring {

// What all ranks of a contestant did at one command.
struct Measured {
  std::vector<int64_t> times_ns;  // Per operation, of the slowest rank.
  int64_t wrong = 0;              // Over all ranks.
  std::string first_wrong;
  int64_t processor_ns = 0;  // Of all processes; only where there are servers.
};

// One contestant at a time works, and the ranks of the others sleep until they are told
// something. One thread, the one in which the processes die if it ends.
//
// Errors name the contestant and the rank: what the rank said failed; kUnavailable for
// one that has ended, with the log where it may have left a reason; kDeadlineExceeded
// with those that did not answer; kCancelled where a signal came, with its exit code.
class Conductor {
 public:
  // Contestants must have started and connected before `start_patience`, however slow the
  // machine.
  explicit Conductor(BenchRanks ranks, absl::Duration start_patience = absl::Seconds(60))
      : ranks_(std::move(ranks)), start_patience_(start_patience) {}
  // Kills what still runs.
  ~Conductor() = default;

  // Starts its processes and waits until its ranks have reported and, unless there are
  // servers, are connected with each other. Contestants are known as 0, 1, ... from then
  // on. Returns the version that rank 0 has named.
  absl::StatusOr<std::string> Start(const ContestantProcesses& processes);

  // Where there are servers, before anything is measured of so many floats: these open,
  // and the workers connect.
  absl::Status Open(int contestant, int64_t count, absl::Duration timeout);

  // Lets a contestant do what the command says, which it must have done before `timeout`.
  absl::StatusOr<Measured> Measure(int contestant, const BenchMeasure& measure,
                                   absl::Duration timeout);

  // Where there are servers: compares what all checked operations have led to.
  absl::StatusOr<Measured> Settle(int contestant, absl::Duration timeout);

  // Tells all ranks that there is nothing more to do, and waits until every process has
  // ended, well. Nothing may follow.
  absl::Status Finish();

 private:
  struct Running {
    std::string name;
    std::vector<BenchChannel> channels;  // By rank.
    std::vector<std::string> servers;    // Names of their processes.
  };

  // Takes in the first message of every rank.
  absl::Status Meet(BenchListener& listener, Running& running,
                    std::vector<BenchHello>* hellos);
  // Tells every rank from `first` on the same, and gets their replies, by rank; of those
  // before `first` there is an empty one.
  absl::StatusOr<std::vector<BenchReply>> Command(Running& running, int first,
                                                  const BenchCommand& command,
                                                  absl::Duration timeout);
  // Tells those that measure, and sums up.
  absl::StatusOr<Measured> MeasureWith(int contestant, const BenchCommand& command,
                                       int times, absl::Duration timeout);
  // Of all servers of a contestant, since they started.
  absl::StatusOr<absl::Duration> ServersProcessorTime(const Running& running) const;
  // Blocks until the descriptor, from which a rank is to come, is readable.
  // kDeadlineExceeded with those that are missing.
  absl::Status AwaitRank(const Running& running, int descriptor,
                         std::chrono::steady_clock::time_point deadline);
  // Blocks until one of the descriptors is readable and returns its index; negative ones
  // are ignored. An error where a child has ended or a signal has come;
  // kDeadlineExceeded.
  absl::StatusOr<int> AwaitReadable(const std::vector<int>& descriptors,
                                    std::chrono::steady_clock::time_point deadline);
  // What a rank has said of its failure; the end of a server, where that was the reason.
  absl::Status FailureOf(const Running& running, int rank, const Failure& failure);
  // The error of a rank whose channel is closed.
  absl::Status RankLostError(const Running& running, int rank);
  absl::Status EndedError(const EndedChild& child) const;
  // "rank 1, rank 2": those for which it is true.
  std::string NamesOf(const std::vector<bool>& ranks) const;

  const BenchRanks ranks_;
  const absl::Duration start_patience_;
  ChildProcesses children_;
  std::map<std::string, std::string> logs_;  // By name of the process.
  std::vector<Running> running_;
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_CONDUCTOR_H_
