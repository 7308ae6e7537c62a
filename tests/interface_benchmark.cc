// Which of gRPC's interfaces moves the slots of a step fastest, and at what price in
// processor time: long-lived streams or a call per slot, completion queues or callbacks,
// one connection or several.
//
// Every way has a server process and a worker process of its own in each round, because
// all callbacks of a process share gRPC's threads, and because nothing is left of a way
// when its processes have ended. Parameters are checked after the last step.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/arithmetic.h"
#include "common/float_pieces.h"
#include "common/grpc_message.h"
#include "common/mutex.h"
#include "common/wire_message.h"
#include "glog/logging.h"
#include "proto/parameter_server.pb.h"
#include "tests/benchmark_util.h"
#include "tests/interface_ways.h"

namespace psring {
namespace {

struct ReceivedFloats {
  FloatPieces floats;
  std::shared_ptr<const void> owner;  // Keeps them.
};

ReceivedFloats TakeFloats(grpc::ByteBuffer* message,
                          google::protobuf::MessageLite* header) {
  absl::StatusOr<ReceivedPayload> received = TakeMessage(message, header);
  CHECK(received.ok()) << received.status();
  absl::StatusOr<FloatPieces> floats = FloatsOf(std::move(received->pieces));
  CHECK(floats.ok()) << floats.status();
  return {.floats = *std::move(floats), .owner = std::move(received->owner)};
}

// What the server does: adds every float of a slot of a worker, of which one request at a
// time is under way, to a sum of its own, and answers with the sums.
class Sums {
 public:
  explicit Sums(const BenchmarkSettings& settings)
      : sums_(settings.workers * settings.slots,
              std::vector<float>(settings.slot_count())) {}

  grpc::ByteBuffer Answer(grpc::ByteBuffer* message) {
    ParameterRequest request;
    const ReceivedFloats received = TakeFloats(message, &request);
    const std::span<float> sum = sums_[request.id()];
    CHECK_EQ(received.floats.count(), static_cast<int64_t>(sum.size()));
    FloatReader reader(received.floats);
    for (std::span<float> left = sum; !left.empty();) {
      const Bytes bytes = reader.Next(static_cast<int64_t>(left.size()));
      const size_t count = bytes.size() / sizeof(float);
      AddBytesInPlace(left.first(count), bytes);
      left = left.subspan(count);
    }
    ParameterAnswer answer;
    answer.set_id(request.id());
    return MakeMessage(answer, std::as_bytes(sum), /*owner=*/nullptr);
  }

 private:
  std::vector<std::vector<float>> sums_;
};

// Sends the gradients of all slots in a step, and copies the answers into the parameters.
class Worker {
 public:
  Worker(const BenchmarkSettings& settings, const Interface& interface, int rank,
         int port)
      : first_id_(rank * settings.slots) {
    for (int slot = 0; slot < settings.slots; ++slot) {
      std::vector<float>& gradient = gradients_.emplace_back(settings.slot_count());
      // They differ by rank, slot and element, and add up exactly.
      for (size_t i = 0; i < gradient.size(); ++i) {
        gradient[i] = static_cast<float>(1 + rank + (slot + i) % 61);
      }
      parameters_.emplace_back(gradient.size());
    }
    for (int i = 0; i < interface.connections; ++i) {
      connections_.push_back(ConnectInterface(
          interface, port, [this](grpc::ByteBuffer* message) { Take(message); }));
    }
  }

  void Step() {
    {
      MutexLock lock(&mutex_);
      unanswered_ = gradients_.size();
    }
    for (size_t slot = 0; slot < gradients_.size(); ++slot) {
      ParameterRequest request;
      request.set_id(first_id_ + slot);
      connections_[slot % connections_.size()]->Send(
          MakeMessage(request, std::as_bytes(std::span(gradients_[slot])),
                      /*owner=*/nullptr));
    }
    MutexLock lock(&mutex_);
    while (unanswered_ > 0) all_answered_.Wait(&mutex_);
  }

  void CheckParameters(int steps) const {
    for (size_t slot = 0; slot < gradients_.size(); ++slot) {
      CHECK(std::equal(gradients_[slot].begin(), gradients_[slot].end(),
                       parameters_[slot].begin(), [&](float gradient, float parameter) {
                         return parameter == gradient * static_cast<float>(steps);
                       }));
    }
  }

 private:
  void Take(grpc::ByteBuffer* message) {
    ParameterAnswer answer;
    const ReceivedFloats received = TakeFloats(message, &answer);
    received.floats.CopyTo(parameters_[answer.id() - first_id_]);
    MutexLock lock(&mutex_);
    if (--unanswered_ == 0) all_answered_.NotifyOne();
  }

  const uint64_t first_id_;                                 // Of slot 0.
  std::vector<std::vector<float>> gradients_, parameters_;  // By slot.
  std::vector<std::unique_ptr<InterfaceConnection>> connections_;

  Mutex mutex_;
  size_t unanswered_ ABSL_GUARDED_BY(mutex_) = 0;
  CondVar all_answered_;
};

template <typename T>
using Send = std::function<void(const T&)>;

template <typename T>
struct Child {
  pid_t process;
  T sent;
};

// Runs `run` in a process that dies with this one; returns what it sends. This process
// has no threads yet.
template <typename T>
Child<T> Fork(const std::function<void(const Send<T>&)>& run) {
  int ends[2];
  PCHECK(pipe(ends) == 0);
  const pid_t process = fork();
  PCHECK(process >= 0);
  if (process == 0) {
    PCHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    run([&](const T& value) {
      PCHECK(write(ends[1], &value, sizeof(value)) == sizeof(value));
    });
    _exit(0);
  }
  close(ends[1]);
  Child<T> child = {.process = process, .sent = {}};
  CHECK_EQ(read(ends[0], &child.sent, sizeof(T)), ssize_t{sizeof(T)})
      << "the process has failed";
  close(ends[0]);
  return child;
}

// One way in one round, in a process of its own that ends here, with its calls as they
// are.
[[noreturn]] void MeasureInterface(const BenchmarkSettings& settings,
                                   const Interface& interface,
                                   const Send<MeasuredSteps>& send) {
  const auto server = Fork<int>([&](const Send<int>& listening) {
    Sums sums(settings);
    ServeInterface(
        interface, settings.workers * settings.slots,
        [&](grpc::ByteBuffer* request) { return sums.Answer(request); }, listening);
  });
  std::vector<std::unique_ptr<Worker>> workers;
  for (int rank = 0; rank < settings.workers; ++rank) {
    workers.push_back(std::make_unique<Worker>(settings, interface, rank, server.sent));
  }
  // As in a synchronous job, a step ends for all workers together.
  std::barrier round(settings.workers);
  const MeasuredSteps measured = MeasureSteps(
      settings,
      [&](int rank, int) {
        workers[rank]->Step();
        round.arrive_and_wait();
      },
      server.process);
  for (const auto& worker : workers) {
    worker->CheckParameters(settings.warm_up + settings.steps);
  }
  send(measured);
  _exit(0);
}

std::vector<Way> Ways(const BenchmarkSettings& settings) {
  const std::vector<std::pair<std::string, Interface>> interfaces = {
      {"stream, queue", {.stream = true, .queue = true}},
      {"stream, callbacks", {.stream = true, .queue = false}},
      {"unary, queue", {.stream = false, .queue = true}},
      {"unary, callbacks", {.stream = false, .queue = false}},
      {"stream, queue, 2 server threads",
       {.stream = true, .queue = true, .server_threads = 2}},
      {"stream, queue, 2 connections", {.stream = true, .queue = true, .connections = 2}},
      {"stream, queue, 4 connections", {.stream = true, .queue = true, .connections = 4}},
      {"unary, queue, 2 connections", {.stream = false, .queue = true, .connections = 2}},
      {"unary, queue, 4 connections", {.stream = false, .queue = true, .connections = 4}},
  };
  // A server dies with its worker process, and is then this one's to wait for.
  PCHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  std::vector<Way> ways;
  for (const auto& [name, interface] : interfaces) {
    if (interface.connections > settings.slots) continue;  // Some would be idle.
    ways.push_back({name, [&settings, interface = interface] {
                      const auto child =
                          Fork<MeasuredSteps>([&](const Send<MeasuredSteps>& send) {
                            MeasureInterface(settings, interface, send);
                          });
                      while (wait(nullptr) > 0) {
                      }
                      return child.sent;
                    }});
  }
  return ways;
}

}  // namespace
}  // namespace psring

int main(int argc, char** argv) {
  return psring::RunBenchmark(
      argc, argv, "Moves slots between workers and a server through gRPC's interfaces.",
      psring::Ways);
}
