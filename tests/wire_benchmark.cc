// How fast a synchronous step's gradients and parameters move between workers and one
// parameter server over loopback, and at what price in processor time.
//
// Every round runs each way once, in turn, so that whatever else the machine does meets
// all alike; the table has medians over rounds, and ratios are medians of the ratios
// within a round. A way is checked by its result: after the last step the parameters must
// be what they are after as many steps of the known gradients.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/allocator.h"
#include "common/gradient_exchange.h"
#include "common/layout.h"
#include "common/slot_plan.h"
#include "common/time_source.h"
#include "glog/logging.h"
#include "grpc/grpc.h"
#include "tests/parameter_server_cluster.h"
#include "worker/parameter_server_exchange.h"

namespace psring {
namespace {

using Clock = std::chrono::steady_clock;

struct Settings {
  int workers = 2;
  int slots = 8;
  int64_t slot_bytes = kMaxSlotBytes;
  int steps = 20;
  int warm_up = 3;

  int64_t slot_count() const { return slot_bytes / int64_t{sizeof(float)}; }
};

// Of one way in one round.
struct Measured {
  double step_seconds = 0;       // Of the median step of worker 0.
  double processor_seconds = 0;  // Of the whole process, per step.
};

double ProcessorSeconds() {
  rusage usage;
  CHECK_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

template <typename T>
T Median(std::vector<T> values) {
  CHECK(!values.empty());
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Runs warm-up and steps in a thread per worker; step(rank, n) is one step.
Measured Measure(const Settings& settings, const std::function<void(int, int)>& step) {
  std::vector<double> seconds;
  double processor = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < settings.workers; ++rank) {
    threads.emplace_back([&, rank] {
      for (int n = 0; n < settings.warm_up + settings.steps; ++n) {
        if (rank == 0 && n == settings.warm_up) processor = ProcessorSeconds();
        const auto start = Clock::now();
        step(rank, n);
        if (rank != 0 || n < settings.warm_up) continue;
        seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count());
      }
      if (rank == 0) processor = ProcessorSeconds() - processor;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return {.step_seconds = Median(seconds),
          .processor_seconds = processor / settings.steps};
}

Measured ThroughServer(const Settings& settings, ChannelKind kind) {
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
  const Measured measured = Measure(settings, [&](int rank, int n) {
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
Measured ThroughSockets(const Settings& settings) {
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
  const Measured measured = Measure(settings, [&](int rank, int) {
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

struct Way {
  std::string name;
  std::function<Measured()> run;
  std::vector<Measured> rounds;
};

void Run(const Settings& settings, int rounds) {
  std::vector<Way> ways = {
      {"psring", [&] { return ThroughServer(settings, ChannelKind::kGrpc); }, {}},
      {"plain client",
       [&] { return ThroughServer(settings, ChannelKind::kPlainClient); },
       {}},
      {"plain server",
       [&] { return ThroughServer(settings, ChannelKind::kPlainServer); },
       {}},
      {"plain both", [&] { return ThroughServer(settings, ChannelKind::kPlain); }, {}},
      {"sockets", [&] { return ThroughSockets(settings); }, {}},
  };
  for (int round = 0; round < rounds; ++round) {
    for (Way& way : ways) way.rounds.push_back(way.run());
  }
  const double gigabytes = 2e-9 * static_cast<double>(settings.workers) *
                           static_cast<double>(settings.slots) *
                           static_cast<double>(settings.slot_bytes);
  std::cout << absl::StrFormat("%-14s %10s %10s %10s %8s\n", "way", "step ms", "GB/s",
                               "cpu s/GB", "x psring");
  for (const Way& way : ways) {
    std::vector<double> seconds, processor, ratios;
    for (int round = 0; round < rounds; ++round) {
      seconds.push_back(way.rounds[round].step_seconds);
      processor.push_back(way.rounds[round].processor_seconds / gigabytes);
      ratios.push_back(way.rounds[round].step_seconds /
                       ways[0].rounds[round].step_seconds);
    }
    std::cout << absl::StrFormat("%-14s %10.3f %10.2f %10.2f %8.2f\n", way.name,
                                 1e3 * Median(seconds), gigabytes / Median(seconds),
                                 Median(processor), Median(ratios));
  }
}

int Main(int argc, char** argv) {
  google::InitGoogleLogging(argv[0]);
  Settings settings;
  int rounds = 5;
  bool default_allocator = false;
  CLI::App app("Moves gradients and parameters between workers and a parameter server.");
  app.add_option("--workers", settings.workers, "Workers, as threads")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  app.add_option("--slots", settings.slots, "Slots in flight per worker")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  app.add_option("--slot-bytes", settings.slot_bytes, "Bytes of a slot")
      ->capture_default_str()
      ->check(CLI::Range(4, 256 << 20));
  app.add_option("--steps", settings.steps, "Measured steps of a way in a round")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--rounds", rounds, "Rounds, each of all ways in turn")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_flag("--default-allocator", default_allocator, "Do not tune the allocator");
  CLI11_PARSE(app, argc, argv);
  if (!default_allocator) TuneAllocator();
  grpc_init();
  double before = 0, after = 0;
  PCHECK(getloadavg(&before, 1) == 1);
  std::cout << absl::StrFormat(
      "%d workers, %d slots of %d bytes, %d rounds of %d steps, %d cores, gRPC %s, "
      "allocator %s\n",
      settings.workers, settings.slots, settings.slot_bytes, rounds, settings.steps,
      std::thread::hardware_concurrency(), grpc_version_string(),
      default_allocator ? "as it is" : "tuned");
  Run(settings, rounds);
  PCHECK(getloadavg(&after, 1) == 1);
  std::cout << absl::StrFormat("load %.1f before, %.1f after\n", before, after);
  return 0;
}

}  // namespace
}  // namespace psring

int main(int argc, char** argv) { return psring::Main(argc, argv); }
