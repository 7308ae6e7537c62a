// Both ends of a contestant of `psring bench push-pull`, one pair for each way to move
// slots. All of them run in processes of their own, and in tests as threads.
#ifndef PSRING_EXPERIMENTS_BENCH_PUSH_PULL_ENDS_H_
#define PSRING_EXPERIMENTS_BENCH_PUSH_PULL_ENDS_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "experiments/bench/push_pull/plan.h"

namespace psring {

// How long an end waits for the other one. Less than the conductor waits for a command,
// so that who is missing is named by who misses it.
inline constexpr absl::Duration kEndPatience = absl::Seconds(60);

// One server. One thread calls it; it serves in threads of its own, which sleep where no
// worker wants anything.
class PushPullServer {
 public:
  virtual ~PushPullServer() = default;

  // Lets go of what was opened before, and serves all workers with its slots of the plan
  // from now on. Returns "host:port".
  virtual absl::StatusOr<std::string> Open(const PushPullPlan& plan) = 0;
};

// One worker. One thread. After an error of Connect or Exchange only Close.
class PushPullWorker {
 public:
  virtual ~PushPullWorker() = default;

  // To all servers, by index, which have opened the same plan; not while connected.
  // Buffers of plan.count floats each, which outlive the connections; what is in
  // `parameters` is where the servers start, and the same for all workers.
  virtual absl::Status Connect(const PushPullPlan& plan, std::span<float> gradients,
                               std::span<float> parameters,
                               const std::vector<std::string>& servers) = 0;

  // One operation: pushes all slots and waits for all answers. With `land` these are in
  // `parameters` then; otherwise an end may leave them where it received them.
  virtual absl::Status Exchange(bool land) = 0;

  // Lets go of the servers; without effect while there are none.
  virtual void Close() = 0;

  // Whether an answer is what was pushed (PushPullPlan::echoes times), and not
  // parameters.
  virtual bool echoes() const = 0;
};

struct PushPullEnds {
  std::string job;  // The same for all processes of a contestant, and of no other.
  PushPullJob settings;
};

// psring's own: ParameterServerHost and ParameterShard, ParameterServerExchange over
// GrpcParameterChannel, as in training, with SGD without momentum.
std::unique_ptr<PushPullServer> MakePsringServer(const PushPullEnds& ends, int server);
std::unique_ptr<PushPullWorker> MakePsringWorker(const PushPullEnds& ends, int worker);

// gRPC, the way that measured best (server/README.md): a long-lived stream for each
// worker and server, completion queues, messages that reference memory. Nothing is added
// up, applied or copied: a message goes back as it came.
std::unique_ptr<PushPullServer> MakeGrpcServer();
std::unique_ptr<PushPullWorker> MakeGrpcWorker();

// Bare sockets, one for each worker and server.
std::unique_ptr<PushPullServer> MakeTcpServer(int server);
std::unique_ptr<PushPullWorker> MakeTcpWorker();

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_PUSH_PULL_ENDS_H_
