// How fast a synchronous step's gradients and parameters move between workers and one
// parameter server over loopback, and at what price in processor time.
//
// A way is checked by its result: after the last step the parameters must be what they
// are after as many steps of the known gradients.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/gradient_exchange.h"
#include "common/layout.h"
#include "common/time_source.h"
#include "glog/logging.h"
#include "grpc/grpc.h"
#include "tests/benchmark_util.h"
#include "tests/parameter_server_cluster.h"
#include "worker/parameter_server_exchange.h"

namespace psring {
namespace {

MeasuredSteps ThroughServer(const BenchmarkSettings& settings, ChannelKind kind) {
  ParameterLayout layout;
  for (int slot = 0; slot < settings.slots; ++slot) {
    layout.Add(absl::StrCat("slot ", slot), {settings.slot_count()});
  }
  const BucketPlan buckets =
      PlanBuckets(layout, settings.slot_bytes, settings.slot_bytes);
  ParameterServerCluster::Options options;
  options.kind = kind;
  options.buckets = buckets;
  options.max_slot_bytes = settings.slot_bytes;
  options.workers = settings.workers;
  options.optimizer.mutable_sgd()->set_learning_rate(1);
  options.steps = settings.warm_up + settings.steps;
  ParameterServerCluster cluster(options);

  const RealTime time;
  struct Worker {
    std::vector<float> parameters, gradients;
    std::unique_ptr<ParameterServerExchange> exchange;
  };
  std::vector<Worker> workers(settings.workers);
  for (int rank = 0; rank < settings.workers; ++rank) {
    Worker& worker = workers[rank];
    worker.parameters.assign(layout.count(), 0);
    worker.gradients.assign(layout.count(), static_cast<float>(2 * rank));
    worker.exchange = std::make_unique<ParameterServerExchange>(
        rank, cluster.plan(), cluster.NewChannels(rank), &time);
  }
  const MeasuredSteps measured = MeasureSteps(settings, [&](int rank, int n) {
    Worker& worker = workers[rank];
    if (n == 0) {
      const absl::Status bound = worker.exchange->Bind(
          {.data = worker.parameters.data(), .count = layout.count()},
          {.data = worker.gradients.data(), .count = layout.count()});
      CHECK(bound.ok()) << bound;
    }
    for (const Bucket& bucket : buckets.buckets) {
      const absl::Status launched =
          worker.exchange->Launch(n, bucket, ReadyEvent::Happened());
      CHECK(launched.ok()) << launched;
    }
    const absl::StatusOr<StepReport> finished = worker.exchange->Finish(n);
    CHECK(finished.ok()) << finished.status();
  });
  // The mean gradient of 0, 2, 4, ... is workers - 1, exactly.
  const float expected = -static_cast<float>(settings.workers - 1) *
                         static_cast<float>(settings.warm_up + settings.steps);
  for (const Worker& worker : workers) {
    CHECK(std::all_of(worker.parameters.begin(), worker.parameters.end(),
                      [&](float value) { return value == expected; }));
  }
  return measured;
}

void SendAll(int socket, std::vector<char>& bytes) {
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t n = send(socket, bytes.data() + sent, bytes.size() - sent, 0);
    PCHECK(n > 0);
    sent += static_cast<size_t>(n);
  }
}

void ReceiveAll(int socket, std::vector<char>& bytes) {
  for (size_t received = 0; received < bytes.size();) {
    const ssize_t n =
        recv(socket, bytes.data() + received, bytes.size() - received, MSG_WAITALL);
    PCHECK(n > 0);
    received += static_cast<size_t>(n);
  }
}

// The limit: a thread per worker that takes each slot in and sends as much back, without
// looking at it.
MeasuredSteps ThroughSockets(const BenchmarkSettings& settings) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {.sin_family = AF_INET,
                         .sin_port = 0,
                         .sin_addr = {htonl(INADDR_LOOPBACK)},
                         .sin_zero = {}};
  socklen_t size = sizeof(address);
  PCHECK(bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0);
  PCHECK(listen(listener, settings.workers) == 0);
  PCHECK(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  const int steps = settings.warm_up + settings.steps;
  std::vector<int> sockets;
  std::vector<std::thread> servers;
  for (int rank = 0; rank < settings.workers; ++rank) {
    sockets.push_back(socket(AF_INET, SOCK_STREAM, 0));
    PCHECK(connect(sockets.back(), reinterpret_cast<sockaddr*>(&address), size) == 0);
    const int accepted = accept(listener, nullptr, nullptr);
    PCHECK(accepted >= 0);
    const int on = 1;
    for (const int end : {sockets.back(), accepted}) {
      PCHECK(setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) == 0);
    }
    servers.emplace_back([&settings, steps, accepted] {
      std::vector<char> slot(settings.slot_bytes);
      for (int n = 0; n < steps * settings.slots; ++n) {
        ReceiveAll(accepted, slot);
        SendAll(accepted, slot);
      }
      close(accepted);
    });
  }
  std::vector<std::vector<char>> out(settings.workers), in(settings.workers);
  for (int rank = 0; rank < settings.workers; ++rank) {
    out[rank].assign(settings.slot_bytes, static_cast<char>(1 + rank));
    in[rank].resize(settings.slot_bytes);
  }
  const MeasuredSteps measured = MeasureSteps(settings, [&](int rank, int) {
    // Pushes and pulls at the same time, as the exchange does.
    std::thread pusher([&] {
      for (int slot = 0; slot < settings.slots; ++slot) SendAll(sockets[rank], out[rank]);
    });
    for (int slot = 0; slot < settings.slots; ++slot) ReceiveAll(sockets[rank], in[rank]);
    pusher.join();
    CHECK(in[rank] == out[rank]);
  });
  for (std::thread& server : servers) server.join();
  for (const int end : sockets) close(end);
  close(listener);
  return measured;
}

std::vector<Way> Ways(const BenchmarkSettings& settings) {
  grpc_init();  // Once, not anew for each way.
  const auto through_server = [&settings](ChannelKind kind) {
    return [&settings, kind] { return ThroughServer(settings, kind); };
  };
  return {
      {"psring", through_server(ChannelKind::kGrpc)},
      {"plain client", through_server(ChannelKind::kPlainClient)},
      {"plain server", through_server(ChannelKind::kPlainServer)},
      {"plain both", through_server(ChannelKind::kPlain)},
      {"sockets", [&settings] { return ThroughSockets(settings); }},
  };
}

}  // namespace
}  // namespace psring

int main(int argc, char** argv) {
  return psring::RunBenchmark(
      argc, argv,
      "Moves gradients and parameters between workers and a parameter server.",
      psring::Ways);
}
