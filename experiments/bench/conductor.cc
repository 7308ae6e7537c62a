#include "experiments/bench/conductor.h"

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

absl::Duration Until(SteadyTime deadline) {
  return std::max(absl::ZeroDuration(),
                  absl::FromChrono(deadline - std::chrono::steady_clock::now()));
}

absl::Status SignalError(int signal) {
  return WithExitCode(
      absl::CancelledError(absl::StrCat("stopped by ", strsignal(signal))),
      static_cast<ExitCode>(128 + signal));
}

}  // namespace

absl::StatusOr<std::string> Conductor::Start(const ContestantPlan& plan) {
  ASSIGN_OR_RETURN(BenchListener listener, BenchListener::Listen(plan.control));
  Running running{.name = plan.name, .channels = {}};
  running.channels.resize(ranks_);
  for (const ContestantPlan::Process& process : plan.processes) {
    RETURN_IF_ERROR(children_.Start(process.name, process.arguments, process.log));
    logs_[process.name] = process.log;
  }
  std::vector<BenchHello> hellos(ranks_);
  RETURN_IF_ERROR(Annotate(Meet(listener, running, &hellos), plan.name));

  BenchCommand command;
  for (const BenchHello& hello : hellos) {
    command.mutable_connect()->add_addresses(hello.address());
  }
  RETURN_IF_ERROR(Command(running, command, start_patience_).status());
  running_.push_back(std::move(running));
  return hellos[0].version();
}

absl::Status Conductor::Meet(BenchListener& listener, Running& running,
                             std::vector<BenchHello>* hellos) {
  const SteadyTime deadline = SteadyDeadline(start_patience_);
  for (int met = 0; met < ranks_; ++met) {
    RETURN_IF_ERROR(AwaitRank(running, listener.descriptor(), deadline));
    ASSIGN_OR_RETURN(BenchChannel channel, listener.Accept());
    RETURN_IF_ERROR(AwaitRank(running, channel.descriptor(), deadline));
    BenchHello hello;
    RETURN_IF_ERROR(channel.Receive(&hello));
    if (hello.ranks() != ranks_ || hello.rank() < 0 || hello.rank() >= ranks_ ||
        running.channels[hello.rank()].descriptor() >= 0) {
      return absl::InternalError(absl::StrCat("a rank came as ", hello.rank(), " of ",
                                              hello.ranks(), ", where there are ", ranks_,
                                              " and each comes once"));
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
  std::vector<int> missing;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (running.channels[rank].descriptor() < 0) missing.push_back(rank);
  }
  return RendezvousTimeoutError(
      absl::StrCat(ranks_ - missing.size(), " of ", ranks_, " ranks reported within ",
                   absl::FormatDuration(start_patience_),
                   "; missing: ", absl::StrJoin(missing, ", ")));
}

absl::StatusOr<Measured> Conductor::Measure(int contestant, const BenchMeasure& measure,
                                            absl::Duration timeout) {
  BenchCommand command;
  *command.mutable_measure() = measure;
  ASSIGN_OR_RETURN(const std::vector<BenchReply> replies,
                   Command(running_[contestant], command, timeout));
  Measured measured;
  if (!measure.check()) measured.times_ns.resize(measure.operations());
  for (const BenchReply& reply : replies) {
    CHECK_EQ(reply.times_ns_size(), static_cast<int>(measured.times_ns.size()));
    for (int i = 0; i < reply.times_ns_size(); ++i) {
      measured.times_ns[i] = std::max(measured.times_ns[i], reply.times_ns(i));
    }
    measured.wrong += reply.wrong();
    if (measured.first_wrong.empty()) measured.first_wrong = reply.first_wrong();
  }
  return measured;
}

absl::StatusOr<std::vector<BenchReply>> Conductor::Command(Running& running,
                                                           const BenchCommand& command,
                                                           absl::Duration timeout) {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!running.channels[rank].Send(command).ok()) return RankLostError(running, rank);
  }
  const SteadyTime deadline = SteadyDeadline(timeout);
  std::vector<BenchReply> replies(ranks_);
  std::vector<int> owing(ranks_);  // Descriptors by rank; negative once it has replied.
  for (int rank = 0; rank < ranks_; ++rank) {
    owing[rank] = running.channels[rank].descriptor();
  }
  for (int replied = 0; replied < ranks_; ++replied) {
    const absl::StatusOr<int> ready = AwaitReadable(owing, deadline);
    if (absl::IsDeadlineExceeded(ready.status())) {
      std::vector<int> missing;
      for (int rank = 0; rank < ranks_; ++rank) {
        if (owing[rank] >= 0) missing.push_back(rank);
      }
      return PeerLostError(absl::StrCat(running.name, ": no answer within ",
                                        absl::FormatDuration(timeout), " from rank ",
                                        absl::StrJoin(missing, ", ")));
    }
    RETURN_IF_ERROR(ready.status());
    const int rank = *ready;
    if (!running.channels[rank].Receive(&replies[rank]).ok()) {
      return RankLostError(running, rank);
    }
    owing[rank] = -1;
    if (replies[rank].failure().status_code() != 0) {
      return Annotate(FromFailure(replies[rank].failure()),
                      absl::StrCat(running.name, ", rank ", rank));
    }
  }
  return replies;
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
    if (poll(polled.data(), polled.size(), PollMilliseconds(left)) == 0 &&
        left == absl::ZeroDuration()) {
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
  return PeerLostError(
      absl::StrCat(running.name, ", rank ", rank, " closed its channel and lives on"));
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
