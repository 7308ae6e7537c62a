#include "experiments/bench/conductor.h"

#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/errors.h"
#include "common/status_matchers.h"
#include "experiments/bench/channel.h"
#include "experiments/bench/processes.h"
#include "experiments/bench/socket_folder_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/bench.pb.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ConductorTest : public SocketFolderTest {
 protected:
  // A contestant whose rank R runs the script with $0 the control socket and $1 R.
  ContestantProcesses Plan(int ranks, const std::string& script) const {
    ContestantProcesses plan;
    plan.name = "fake";
    plan.control = absl::StrCat(folder_, "/socket");
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string name = absl::StrCat("fake, rank ", rank);
      plan.processes.push_back(
          {.name = name,
           .arguments = {"/bin/sh", "-c", script, plan.control, absl::StrCat(rank)},
           .log = absl::StrCat(folder_, "/", rank, ".log")});
    }
    return plan;
  }
};

TEST_F(ConductorTest, ARankThatEndsBeforeItReportsIsNamedWithItsLog) {
  Conductor conductor(EqualRanks(2));
  const ContestantProcesses plan =
      Plan(2, "[ $1 = 1 ] && exit 3; exec tail -f /dev/null");
  EXPECT_THAT(conductor.Start(plan).status(),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("fake, rank 1 ended with exit code 3; its log: "),
                             HasSubstr(plan.processes[1].log))));
}

TEST_F(ConductorTest, ARankThatConnectsAndSaysNothingIsMissedInTime) {
  const std::string started = absl::StrCat(folder_, "/started");
  ASSERT_EQ(mkfifo(started.c_str(), 0600), 0);
  const ContestantProcesses plan =
      Plan(1, absl::StrCat("echo > ", started, "; exec tail -f /dev/null"));
  absl::StatusOr<BenchChannel> silent = absl::UnknownError("never connected");
  std::thread rank([&] {
    std::string line;
    std::ifstream fifo(started);
    std::getline(fifo, line);  // By now the conductor listens.
    silent = BenchChannel::Connect(plan.control);
  });
  Conductor conductor(EqualRanks(1), absl::Seconds(1));
  const absl::Status status = conductor.Start(plan).status();
  rank.join();
  EXPECT_OK(silent.status());
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("0 of 1 ranks reported within 1s; missing: rank 0")));
}

TEST_F(ConductorTest, AProgramThatIsNotThereIsNamed) {
  Conductor conductor(EqualRanks(1));
  ContestantProcesses plan = Plan(1, "");
  plan.processes[0].arguments[0] = "/no/such/program";
  EXPECT_THAT(conductor.Start(plan).status(),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("cannot start fake, rank 0: /no/such/program")));
}

// Two processes that do nothing; what they would say comes from a thread each. Conductors
// are made before these threads, which else might be sent the signals that they wait for.
class ConductorOfServersTest : public ConductorTest {
 protected:
  // Says hello as that rank of 2, and then what `reply` makes of each command.
  using Reply = std::function<BenchReply(const BenchCommand& command)>;
  std::thread Rank(int rank, const Reply& reply) {
    return std::thread([this, rank, reply] {
      // There is a socket once somebody listens; until then there is nothing to wait on.
      absl::StatusOr<BenchChannel> channel = absl::UnknownError("not yet");
      while (!channel.ok()) {
        channel = BenchChannel::Connect(absl::StrCat(folder_, "/socket"));
        if (!channel.ok()) std::this_thread::yield();
      }
      BenchHello hello;
      hello.set_rank(rank);
      hello.set_ranks(2);
      EXPECT_OK(channel->Send(hello));
      BenchCommand command;
      while (channel->Receive(&command).ok()) {
        BenchReply answer = reply(command);
        answer.mutable_failure();  // Real ranks' messages have it, and are never empty.
        if (!channel->Send(answer).ok()) return;
      }
    });
  }

  ContestantProcesses Processes() const {
    ContestantProcesses processes;
    processes.name = "fake";
    processes.control = absl::StrCat(folder_, "/socket");
    for (const std::string& name : ranks_.names) {
      processes.Add(folder_, name, {"/usr/bin/tail", "-f", "/dev/null"});
    }
    return processes;
  }

  const BenchRanks ranks_ = ServersAndWorkers(1, 1);
};

TEST_F(ConductorOfServersTest, ServersOpenWorkersConnectAndMeasure) {
  std::optional<Conductor> conductor(std::in_place, ranks_);
  std::vector<std::string> server_heard, worker_heard;
  std::thread server = Rank(0, [&](const BenchCommand& command) {
    server_heard.push_back(command.ShortDebugString());
    BenchReply reply;
    reply.set_address("there");
    return reply;
  });
  std::thread worker = Rank(1, [&](const BenchCommand& command) {
    worker_heard.push_back(command.ShortDebugString());
    BenchReply reply;
    if (command.has_measure()) {
      reply.add_times_ns(7);
      reply.set_processor_ns(1'000'000'000'000);
    }
    if (command.has_settle()) {
      reply.set_wrong(2);
      reply.set_first_wrong("the first");
    }
    return reply;
  });
  {
    ASSERT_OK(conductor->Start(Processes()).status());
    ASSERT_OK(conductor->Open(0, 5, absl::Minutes(1)));
    BenchMeasure measure;
    measure.set_operations(1);
    ASSERT_OK_AND_ASSIGN(const Measured measured,
                         conductor->Measure(0, measure, absl::Minutes(1)));
    EXPECT_THAT(measured.times_ns, testing::ElementsAre(7));
    EXPECT_GE(measured.processor_ns, 1'000'000'000'000);
    ASSERT_OK_AND_ASSIGN(const Measured settled, conductor->Settle(0, absl::Minutes(1)));
    EXPECT_EQ(settled.wrong, 2);
    EXPECT_EQ(settled.first_wrong, "the first");
  }
  conductor.reset();  // Closes the channels.
  server.join();
  worker.join();
  EXPECT_THAT(server_heard, testing::ElementsAre("open { count: 5 }"));
  EXPECT_THAT(worker_heard,
              testing::ElementsAre("open { count: 5 }",
                                   "connect { addresses: \"there\" addresses: \"\" }",
                                   "measure { operations: 1 }", "settle { }"));
}

TEST_F(ConductorOfServersTest, WhoeverDoesNotAnswerIsNamed) {
  std::optional<Conductor> conductor(std::in_place, ranks_);
  // They answer once the conductor has given up.
  absl::Notification given_up;
  const auto late = [&](const BenchCommand&) {
    given_up.WaitForNotification();
    return BenchReply();
  };
  std::thread server = Rank(0, late);
  std::thread worker = Rank(1, late);
  {
    ASSERT_OK(conductor->Start(Processes()).status());
    EXPECT_THAT(
        conductor->Open(0, 5, absl::Milliseconds(10)),
        StatusIs(absl::StatusCode::kUnavailable,
                 HasSubstr("fake: no answer within 10ms from server 0, worker 0")));
    given_up.Notify();
  }
  conductor.reset();  // Closes the channels.
  server.join();
  worker.join();
}

TEST_F(ConductorOfServersTest, AServersEndIsTheReasonWhereAWorkerHasLostIt) {
  std::optional<Conductor> conductor(std::in_place, ranks_);
  std::string said = "server 0 broke";
  std::thread server = Rank(0, [](const BenchCommand&) { return BenchReply(); });
  std::thread worker = Rank(1, [&](const BenchCommand& command) {
    BenchReply reply;
    if (command.has_connect()) {
      *reply.mutable_failure() = ToFailure(PeerLostError(said));
    }
    return reply;
  });
  ContestantProcesses processes = Processes();
  // Ends when the worker has said so, at the latest.
  const std::string end = absl::StrCat(folder_, "/end");
  ASSERT_EQ(mkfifo(end.c_str(), 0600), 0);
  processes.processes[0].arguments = {"/bin/sh", "-c",
                                      absl::StrCat("read line < ", end, "; exit 9")};
  {
    ASSERT_OK(conductor->Start(processes).status());
    std::ofstream(end) << "now" << std::endl;
    EXPECT_THAT(conductor->Open(0, 5, absl::Minutes(1)),
                StatusIs(absl::StatusCode::kUnavailable,
                         HasSubstr("fake, server 0 ended with exit code 9")));
  }
  conductor.reset();  // Closes the channels.
  server.join();
  worker.join();
}

}  // namespace
}  // namespace psring
