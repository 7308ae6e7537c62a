#include "experiments/probe/link_probe.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/processor_time.h"
#include "common/status_macros.h"
#include "common/tcp_socket.h"
#include "common/time_source.h"
#include "experiments/hosts/host_network.h"
#include "experiments/hosts/kernel_statistics.h"
#include "experiments/hosts/network_namespace.h"

namespace psring {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(10);
// An end that waits for room looks this often whether the other has stopped.
constexpr absl::Duration kGlance = absl::Milliseconds(20);
// Losses make a sender go slower for a while; with so many the others fill the link.
constexpr int kConnections = 8;
constexpr size_t kBlockBytes = 64 << 10;
// An end takes and gives at most so many blocks of each connection before it looks at the
// time.
constexpr int kMostBlocks = 32;

// The two ends of a probe: where they are and how they are reached.
struct Ends {
  std::unique_ptr<HostNetwork> network;  // None: the loopback interface.
  std::string near_address;
  std::string far_address;

  absl::Status Inside(int host, absl::FunctionRef<absl::Status()> task) const {
    if (network == nullptr) return task();
    return RunInside(network->NamespaceOf(network->plan().hosts[host].name), task);
  }
};

constexpr int kNear = 0;
constexpr int kFar = 1;

HostPlan PlanFor(const LinkKind& kind) {
  HostPlan plan;
  plan.queue_bytes = kind.queue_bytes;
  plan.burst_bytes = kind.burst_bytes;
  plan.congestion_control = kind.congestion_control;
  plan.hosts = {{.name = "near",
                 .processes = {"near"},
                 .data_address = DataAddress(kNear),
                 .control_address = ControlAddress(kNear)},
                {.name = "far",
                 .processes = {"far"},
                 .data_address = DataAddress(kFar),
                 .control_address = ControlAddress(kFar)}};
  if (kind.between_racks) {
    plan.racks_bit_s = kind.send_bit_s;
    plan.hosts[kFar].rack = 1;
  } else {
    plan.hosts[kNear].send_bit_s = kind.send_bit_s;
    plan.hosts[kNear].receive_bit_s = kind.receive_bit_s;
  }
  return plan;
}

absl::StatusOr<Ends> MakeEnds(const LinkKind& kind) {
  if (kind.loopback()) {
    return Ends{
        .network = nullptr, .near_address = "127.0.0.1", .far_address = "127.0.0.1"};
  }
  Ends ends{.network = nullptr,
            .near_address = DataAddress(kNear),
            .far_address = DataAddress(kFar)};
  ASSIGN_OR_RETURN(ends.network, HostNetwork::Create(PlanFor(kind)));
  return ends;
}

absl::Status Await(const FileDescriptor& socket, short events, const char* what) {
  pollfd polled{.fd = socket.get(), .events = events, .revents = 0};
  int ready = 0;
  do {
    ready = poll(&polled, 1, PollMilliseconds(kPatience));
  } while (ready < 0 && errno == EINTR);
  if (ready > 0) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat(what, ": nothing for ", absl::FormatDuration(kPatience)));
}

struct Connection {
  FileDescriptor near;
  FileDescriptor far;
};

absl::StatusOr<Connection> Connect(const Ends& ends) {
  FileDescriptor listener;
  int port = 0;
  RETURN_IF_ERROR(ends.Inside(kFar, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(listener, ListenTcp(ends.far_address, 0));
    ASSIGN_OR_RETURN(port, BoundPort(listener));
    return absl::OkStatus();
  }));
  Connection connection;
  RETURN_IF_ERROR(ends.Inside(kNear, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses,
                     ResolveTcp(absl::StrCat(ends.far_address, ":", port)));
    ASSIGN_OR_RETURN(connection.near, StartConnectTcp(addresses.front()));
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(Await(connection.near, POLLOUT, "connecting"));
  RETURN_IF_ERROR(SocketError(connection.near));
  RETURN_IF_ERROR(Await(listener, POLLIN, "accepting"));
  ASSIGN_OR_RETURN(AcceptedTcp accepted, AcceptTcp(listener));
  if (!accepted.socket.open()) return absl::UnavailableError("the connection is gone");
  connection.far = std::move(accepted.socket);
  return connection;
}

absl::Status SendByte(const FileDescriptor& socket, std::byte byte) {
  ASSIGN_OR_RETURN(const size_t sent, SendTcp(socket, {&byte, 1}));
  if (sent == 1) return absl::OkStatus();
  return absl::InternalError("there is no room for a byte");
}

absl::StatusOr<std::byte> ReceiveByte(const FileDescriptor& socket) {
  std::byte byte{};
  while (true) {
    ASSIGN_OR_RETURN(const size_t received, ReceiveTcp(socket, {&byte, 1}));
    if (received == 1) return byte;
    RETURN_IF_ERROR(Await(socket, POLLIN, "a message to and fro"));
  }
}

constexpr std::byte kPing{1};
constexpr std::byte kLast{0};

absl::Status Echo(const FileDescriptor& socket) {
  while (true) {
    ASSIGN_OR_RETURN(const std::byte byte, ReceiveByte(socket));
    RETURN_IF_ERROR(SendByte(socket, byte));
    if (byte == kLast) return absl::OkStatus();
  }
}

// The round trips of pings for so long; the last one ends the echo, and there is at least
// one before.
absl::StatusOr<std::vector<absl::Duration>> Pings(const FileDescriptor& socket,
                                                  absl::Duration duration) {
  const RealTime time;
  std::vector<absl::Duration> round_trips;
  bool last = false;
  while (!last) {
    const absl::Duration start = time.Elapsed();
    last = start >= duration && !round_trips.empty();
    RETURN_IF_ERROR(SendByte(socket, last ? kLast : kPing));
    RETURN_IF_ERROR(ReceiveByte(socket).status());
    round_trips.push_back(time.Elapsed() - start);
  }
  return round_trips;
}

absl::StatusOr<absl::Duration> MeasureLatency(const Connection& connection,
                                              absl::Duration duration) {
  absl::Status echoed;
  std::thread far([&] {
    echoed = Echo(connection.far);
    // Whatever went wrong here must not keep the other end waiting, and the reverse.
    if (!echoed.ok()) shutdown(connection.far.get(), SHUT_RDWR);
  });
  absl::StatusOr<std::vector<absl::Duration>> pings = Pings(connection.near, duration);
  if (!pings.ok()) shutdown(connection.near.get(), SHUT_RDWR);
  far.join();
  RETURN_IF_ERROR(pings.status());
  RETURN_IF_ERROR(echoed);
  const auto median = pings->begin() + static_cast<std::ptrdiff_t>(pings->size() / 2);
  std::nth_element(pings->begin(), median, pings->end());
  return *median / 2;
}

// One end of the exchange, in a thread of its own: gives all that there is room for, and
// takes all that comes. It measures what comes between two moments at which it takes
// everything that is there: bytes that waited for the thread do not count. The time
// begins before the first taking and ends after the second, so that a thread which is
// held up in between makes the rate too low, never too high.
class StreamingEnd {
 public:
  // `measured` counts the ends that have; the exchange goes on until both have.
  StreamingEnd(std::vector<const FileDescriptor*> sockets, const ProbeTimes& times,
               std::atomic<int>* measured)
      : sockets_(std::move(sockets)),
        times_(times),
        measured_(measured),
        block_(kBlockBytes) {
    for (const FileDescriptor* const socket : sockets_) {
      polled_.push_back({.fd = socket->get(), .events = POLLIN | POLLOUT, .revents = 0});
    }
  }

  void Run() {
    status_ = Exchange();
    if (!status_.ok()) measured_->store(kBoth);  // So that the other end stops, too.
  }

  const absl::Status& status() const { return status_; }
  double bytes_s() const { return bytes_s_; }
  // Share of the time that the thread needed a processor.
  double processor_share() const { return processor_share_; }

 private:
  static constexpr int kBoth = 2;

  absl::Status Exchange() {
    const RealTime time;
    absl::Duration last_arrival = absl::ZeroDuration();
    std::optional<absl::Duration> begun;
    int64_t bytes_before = 0;
    absl::Duration processor_before = absl::ZeroDuration();
    bool ended = false;
    while (measured_->load() < kBoth) {
      const int64_t before = received_;
      const absl::Duration before_taking = time.Elapsed();
      RETURN_IF_ERROR(Take());
      const absl::Duration now = time.Elapsed();
      if (received_ > before) last_arrival = now;
      if (now - last_arrival > kPatience) {
        return absl::DeadlineExceededError(
            absl::StrCat("nothing came for ", absl::FormatDuration(kPatience)));
      }
      // Once all has been taken, or, where more comes all the time, after as long again.
      if (!begun && now >= (drained_ ? 1 : 2) * times_.warm_up) {
        begun = before_taking;
        bytes_before = received_;
        processor_before = ThreadProcessorTime();
      } else if (begun && !ended && now - *begun >= times_.measured) {
        ended = true;
        bytes_s_ = static_cast<double>(received_ - bytes_before) /
                   absl::ToDoubleSeconds(now - *begun);
        processor_share_ =
            absl::FDivDuration(ThreadProcessorTime() - processor_before, now - *begun);
        measured_->fetch_add(1);
      }
      RETURN_IF_ERROR(Give());
      if (has_room_) continue;
      poll(polled_.data(), polled_.size(), PollMilliseconds(kGlance));
    }
    return absl::OkStatus();
  }

  absl::Status Take() {
    drained_ = true;
    for (const FileDescriptor* const socket : sockets_) {
      bool more = true;
      for (int block = 0; more && block < kMostBlocks; ++block) {
        ASSIGN_OR_RETURN(const size_t count, ReceiveTcp(*socket, block_));
        more = count > 0;
        received_ += static_cast<int64_t>(count);
      }
      drained_ &= !more;
    }
    return absl::OkStatus();
  }

  absl::Status Give() {
    has_room_ = false;
    for (const FileDescriptor* const socket : sockets_) {
      bool room = true;
      for (int block = 0; room && block < kMostBlocks; ++block) {
        ASSIGN_OR_RETURN(const size_t count, SendTcp(*socket, block_));
        room = count > 0;
      }
      has_room_ |= room;
    }
    return absl::OkStatus();
  }

  const std::vector<const FileDescriptor*> sockets_;
  const ProbeTimes& times_;
  std::atomic<int>* const measured_;
  std::vector<pollfd> polled_;
  std::vector<std::byte> block_;  // What is sent is of no interest, nor what comes.
  bool has_room_ = true;
  bool drained_ = true;
  int64_t received_ = 0;
  absl::Status status_;
  double bytes_s_ = 0;
  double processor_share_ = 0;
};

absl::Status MeasureRates(const std::vector<Connection>& connections,
                          const ProbeTimes& times, ProbedLink* probed) {
  std::vector<const FileDescriptor*> near_sockets;
  std::vector<const FileDescriptor*> far_sockets;
  for (const Connection& connection : connections) {
    near_sockets.push_back(&connection.near);
    far_sockets.push_back(&connection.far);
  }
  ASSIGN_OR_RETURN(const ProcessorTimes before, ReadProcessorTimes());
  std::atomic<int> measured = 0;
  StreamingEnd near(near_sockets, times, &measured);
  StreamingEnd far(far_sockets, times, &measured);
  std::thread near_thread([&near] { near.Run(); });
  std::thread far_thread([&far] { far.Run(); });
  near_thread.join();
  far_thread.join();
  ASSIGN_OR_RETURN(const ProcessorTimes after, ReadProcessorTimes());
  RETURN_IF_ERROR(near.status());
  RETURN_IF_ERROR(far.status());
  probed->out_bytes_s = far.bytes_s();
  probed->in_bytes_s = near.bytes_s();
  const absl::Duration total = after.total - before.total;
  const double machine = total == absl::ZeroDuration()
                             ? 0
                             : absl::FDivDuration(after.idle - before.idle, total);
  const double thread = 1 - std::max(near.processor_share(), far.processor_share());
  probed->idle = std::clamp(std::min(machine, thread), 0.0, 1.0);
  return absl::OkStatus();
}

absl::Status Probe(const LinkKind& kind, const ProbeTimes& times, ProbedLink* probed) {
  ASSIGN_OR_RETURN(const Ends ends, MakeEnds(kind));
  std::vector<Connection> connections;
  for (int i = 0; i < kConnections; ++i) {
    ASSIGN_OR_RETURN(Connection connection, Connect(ends));
    connections.push_back(std::move(connection));
  }
  ASSIGN_OR_RETURN(probed->latency, MeasureLatency(connections.front(), times.pings));
  return MeasureRates(connections, times, probed);
}

}  // namespace

absl::StatusOr<ProbedLink> ProbeLink(const LinkToProbe& link, const ProbeTimes& times) {
  ProbedLink probed{.link = link};
  RETURN_IF_ERROR(Annotate(Probe(link.kind, times, &probed),
                           absl::StrCat("cannot probe the link of ", link.host)));
  return probed;
}

absl::StatusOr<std::vector<ProbedLink>> ProbeLinks(const std::vector<LinkToProbe>& links,
                                                   std::ostream* progress) {
  std::vector<ProbedLink> all;
  for (const LinkToProbe& link : links) {
    ASSIGN_OR_RETURN(const ProbedLink probed, ProbeLink(link));
    *progress << "probed: " << ToString(probed) << std::endl;
    all.push_back(probed);
  }
  return all;
}

}  // namespace psring
