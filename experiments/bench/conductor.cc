#include "experiments/bench/conductor.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/errors.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "common/tcp_socket.h"
#include "glog/logging.h"

namespace psring {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

// For a process that has nothing more to do, or has closed its channel, to end.
constexpr absl::Duration kEndPatience = absl::Seconds(10);
// For the news of a server's end after a worker has said that it lost one.
constexpr absl::Duration kServerEndPatience = absl::Seconds(10);

absl::Duration Until(SteadyTime deadline) {
  return std::max(absl::ZeroDuration(),
                  absl::FromChrono(deadline - std::chrono::steady_clock::now()));
}

}  // namespace

absl::StatusOr<std::string> Conductor::Start(const ContestantProcesses& processes) {
  ASSIGN_OR_RETURN(BenchListener listener, BenchListener::Listen(processes.control));
  Running running{.name = processes.name, .channels = {}, .servers = {}};
  running.channels.resize(ranks_.count());
  for (const ContestantProcesses::Process& process : processes.processes) {
    RETURN_IF_ERROR(children_.Start(process.name, process.arguments, process.log));
    logs_[process.name] = process.log;
    if (static_cast<int>(running.servers.size()) < ranks_.servers) {
      running.servers.push_back(process.name);
    }
  }
  std::vector<BenchHello> hellos(ranks_.count());
  RETURN_IF_ERROR(Annotate(Meet(listener, running, &hellos), processes.name));

  if (ranks_.servers == 0) {
    BenchCommand command;
    for (const BenchHello& hello : hellos) {
      command.mutable_connect()->add_addresses(hello.address());
    }
    RETURN_IF_ERROR(Command(running, /*first=*/0, command, start_patience_).status());
  }
  running_.push_back(std::move(running));
  return hellos[0].version();
}

absl::Status Conductor::Meet(BenchListener& listener, Running& running,
                             std::vector<BenchHello>* hellos) {
  const SteadyTime deadline = SteadyDeadline(start_patience_);
  for (int met = 0; met < ranks_.count(); ++met) {
    RETURN_IF_ERROR(AwaitRank(running, listener.descriptor(), deadline));
    ASSIGN_OR_RETURN(BenchChannel channel, listener.Accept());
    RETURN_IF_ERROR(AwaitRank(running, channel.descriptor(), deadline));
    BenchHello hello;
    RETURN_IF_ERROR(channel.Receive(&hello));
    if (hello.ranks() != ranks_.count() || hello.rank() < 0 ||
        hello.rank() >= ranks_.count() ||
        running.channels[hello.rank()].descriptor() >= 0) {
      return absl::InternalError(absl::StrCat("a rank came as ", hello.rank(), " of ",
                                              hello.ranks(), ", where there are ",
                                              ranks_.count(), " and each comes once"));
    }
    running.channels[hello.rank()] = std::move(channel);
    (*hellos)[hello.rank()] = std::move(hello);
  }
  return absl::OkStatus();
}

absl::Status Conductor::AwaitRank(const Running& running, int descriptor,
                                  SteadyTime deadline) {
  const absl::Status ready = AwaitReadable({descriptor}, deadline).status();
  if (!absl::IsDeadlineExceeded(ready)) return ready;
  std::vector<bool> missing;
  for (const BenchChannel& channel : running.channels) {
    missing.push_back(channel.descriptor() < 0);
  }
  return RendezvousTimeoutError(absl::StrCat(
      std::count(missing.begin(), missing.end(), false), " of ", ranks_.count(),
      " ranks reported within ", absl::FormatDuration(start_patience_),
      "; missing: ", NamesOf(missing)));
}

std::string Conductor::NamesOf(const std::vector<bool>& ranks) const {
  std::vector<std::string> names;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (ranks[rank]) names.push_back(ranks_.names[rank]);
  }
  return absl::StrJoin(names, ", ");
}

absl::Status Conductor::Open(int contestant, int64_t count, absl::Duration timeout) {
  Running& running = running_[contestant];
  const SteadyTime deadline = SteadyDeadline(timeout);
  BenchCommand open;
  open.mutable_open()->set_count(count);
  ASSIGN_OR_RETURN(const std::vector<BenchReply> opened,
                   Command(running, /*first=*/0, open, timeout));
  BenchCommand connect;
  connect.mutable_connect();  // An empty list is one, too.
  for (const BenchReply& reply : opened) {
    connect.mutable_connect()->add_addresses(reply.address());
  }
  return Command(running, ranks_.servers, connect, Until(deadline)).status();
}

absl::StatusOr<Measured> Conductor::Measure(int contestant, const BenchMeasure& measure,
                                            absl::Duration timeout) {
  BenchCommand command;
  *command.mutable_measure() = measure;
  return MeasureWith(contestant, command, measure.check() ? 0 : measure.operations(),
                     timeout);
}

absl::StatusOr<Measured> Conductor::Settle(int contestant, absl::Duration timeout) {
  BenchCommand command;
  command.mutable_settle();
  return MeasureWith(contestant, command, /*times=*/0, timeout);
}

absl::StatusOr<Measured> Conductor::MeasureWith(int contestant,
                                                const BenchCommand& command, int times,
                                                absl::Duration timeout) {
  Running& running = running_[contestant];
  // Where a server has ended, the command says how.
  const absl::StatusOr<absl::Duration> before = ServersProcessorTime(running);
  ASSIGN_OR_RETURN(const std::vector<BenchReply> replies,
                   Command(running, ranks_.servers, command, timeout));
  RETURN_IF_ERROR(before.status());
  ASSIGN_OR_RETURN(const absl::Duration after, ServersProcessorTime(running));
  Measured measured;
  measured.times_ns.resize(times);
  measured.processor_ns = absl::ToInt64Nanoseconds(after - *before);
  for (int rank = ranks_.servers; rank < ranks_.count(); ++rank) {
    const BenchReply& reply = replies[rank];
    CHECK_EQ(reply.times_ns_size(), times);
    for (int i = 0; i < times; ++i) {
      measured.times_ns[i] = std::max(measured.times_ns[i], reply.times_ns(i));
    }
    measured.wrong += reply.wrong();
    if (measured.first_wrong.empty()) measured.first_wrong = reply.first_wrong();
    measured.processor_ns += reply.processor_ns();
  }
  return measured;
}

absl::StatusOr<absl::Duration> Conductor::ServersProcessorTime(
    const Running& running) const {
  absl::Duration all = absl::ZeroDuration();
  for (const std::string& server : running.servers) {
    ASSIGN_OR_RETURN(const absl::Duration time, children_.ProcessorTime(server));
    all += time;
  }
  return all;
}

absl::StatusOr<std::vector<BenchReply>> Conductor::Command(Running& running, int first,
                                                           const BenchCommand& command,
                                                           absl::Duration timeout) {
  for (int rank = first; rank < ranks_.count(); ++rank) {
    if (!running.channels[rank].Send(command).ok()) return RankLostError(running, rank);
  }
  const SteadyTime deadline = SteadyDeadline(timeout);
  std::vector<BenchReply> replies(ranks_.count());
  // Descriptors by rank; negative of those that owe no reply.
  std::vector<int> owing(ranks_.count(), -1);
  for (int rank = first; rank < ranks_.count(); ++rank) {
    owing[rank] = running.channels[rank].descriptor();
  }
  for (int replied = first; replied < ranks_.count(); ++replied) {
    const absl::StatusOr<int> ready = AwaitReadable(owing, deadline);
    if (absl::IsDeadlineExceeded(ready.status())) {
      std::vector<bool> missing;
      for (const int descriptor : owing) missing.push_back(descriptor >= 0);
      return PeerLostError(absl::StrCat(running.name, ": no answer within ",
                                        absl::FormatDuration(timeout), " from ",
                                        NamesOf(missing)));
    }
    RETURN_IF_ERROR(ready.status());
    const int rank = *ready;
    if (!running.channels[rank].Receive(&replies[rank]).ok()) {
      return RankLostError(running, rank);
    }
    owing[rank] = -1;
    if (replies[rank].failure().status_code() != 0) {
      return FailureOf(running, rank, replies[rank].failure());
    }
  }
  return replies;
}

absl::Status Conductor::FailureOf(const Running& running, int rank,
                                  const Failure& failure) {
  absl::Status said = Annotate(FromFailure(failure),
                               absl::StrCat(running.name, ", ", ranks_.names[rank]));
  if (running.servers.empty() || !absl::IsUnavailable(said)) return said;
  // A worker may notice a server's end before this process does, but not how it ended.
  const SteadyTime deadline = SteadyDeadline(kServerEndPatience);
  for (absl::Duration left = kServerEndPatience; left > absl::ZeroDuration();
       left = Until(deadline)) {
    const ChildProcesses::Event event = children_.Wait(left);
    if (event.signal) return SignalError(*event.signal);
    for (const EndedChild& child : event.ended) {
      const auto& servers = running.servers;
      if (std::find(servers.begin(), servers.end(), child.name) != servers.end()) {
        return EndedError(child);
      }
    }
  }
  return said;
}

absl::StatusOr<int> Conductor::AwaitReadable(const std::vector<int>& descriptors,
                                             SteadyTime deadline) {
  std::vector<pollfd> polled;
  for (const int descriptor : descriptors) {
    polled.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
  }
  polled.push_back({.fd = children_.descriptor(), .events = POLLIN, .revents = 0});
  for (;;) {
    const absl::Duration left = Until(deadline);
    const int ready = poll(polled.data(), polled.size(), PollMilliseconds(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) {
      return absl::InternalError(absl::StrCat("poll: ", strerror(errno)));
    }
    if (ready == 0 && left == absl::ZeroDuration()) {
      return absl::DeadlineExceededError("nobody was ready");
    }
    // What a rank has said of its failure comes before the news of its end.
    for (size_t i = 0; i < descriptors.size(); ++i) {
      if (polled[i].fd >= 0 && polled[i].revents != 0) return static_cast<int>(i);
    }
    if (polled.back().revents != 0) {
      const ChildProcesses::Event event = children_.Wait(absl::ZeroDuration());
      if (event.signal) return SignalError(*event.signal);
      if (!event.ended.empty()) return EndedError(event.ended[0]);
    }
  }
}

absl::Status Conductor::RankLostError(const Running& running, int rank) {
  // Its process, or the one that started it, ends as well and can tell how.
  const SteadyTime deadline = SteadyDeadline(kEndPatience);
  for (absl::Duration left = kEndPatience; left > absl::ZeroDuration();
       left = Until(deadline)) {
    const ChildProcesses::Event event = children_.Wait(left);
    if (event.signal) return SignalError(*event.signal);
    if (!event.ended.empty()) return EndedError(event.ended[0]);
  }
  return PeerLostError(absl::StrCat(running.name, ", ", ranks_.names[rank],
                                    " closed its channel and lives on"));
}

absl::Status Conductor::EndedError(const EndedChild& child) const {
  return PeerLostError(
      absl::StrCat(child.name, " ", child.how, "; its log: ", logs_.at(child.name)));
}

absl::Status Conductor::Finish() {
  running_.clear();  // Closes all channels.
  absl::Status status;
  const SteadyTime deadline = SteadyDeadline(kEndPatience);
  while (children_.running()) {
    const absl::Duration left = Until(deadline);
    if (left == absl::ZeroDuration()) {
      return PeerLostError(absl::StrCat("did not end within ",
                                        absl::FormatDuration(kEndPatience), ": ",
                                        absl::StrJoin(children_.RunningNames(), "; ")));
    }
    const ChildProcesses::Event event = children_.Wait(left);
    if (event.signal) return SignalError(*event.signal);
    for (const EndedChild& child : event.ended) {
      if (child.exit_code != 0 && status.ok()) status = EndedError(child);
    }
  }
  return status;
}

}  // namespace psring
