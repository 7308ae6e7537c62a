#include "experiments/bench/push_pull/process.h"

#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "experiments/bench/channel.h"
#include "experiments/bench/push_pull/check.h"
#include "experiments/bench/socket_folder_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

PushPullJob Job() {
  PushPullJob job;
  job.set_workers(1);
  job.set_servers(2);
  job.set_slot_bytes(1 << 20);
  job.mutable_mode()->mutable_sync();
  return job;
}

// A worker that is alone does what a server would: parameters -= gradients; or echoes.
class FakeWorker final : public PushPullWorker {
 public:
  explicit FakeWorker(bool echoes) : echoes_(echoes) {}

  absl::Status Connect(const PushPullPlan&, std::span<float> gradients,
                       std::span<float> parameters,
                       const std::vector<std::string>& servers) override {
    gradients_ = gradients;
    parameters_ = parameters;
    servers_ = servers;
    return absl::OkStatus();
  }
  absl::Status Exchange(bool) override {
    if (++exchanges_ == fails_at_) return absl::UnavailableError("server 1 is gone");
    for (size_t i = 0; i < parameters_.size(); ++i) {
      parameters_[i] = echoes_ ? gradients_[i] : parameters_[i] - gradients_[i];
    }
    if (exchanges_ == wrong_at_) parameters_[1] += 1;
    return absl::OkStatus();
  }
  void Close() override { parameters_ = {}; }
  bool echoes() const override { return echoes_; }

  int wrong_at_ = 0, fails_at_ = 0;  // Which exchange; 0: none.
  std::vector<std::string> servers_;

 private:
  const bool echoes_;
  int exchanges_ = 0;
  std::span<float> gradients_, parameters_;
};

class ProcessTest : public SocketFolderTest {
 protected:
  // Plays the launcher against a worker, which checks 2 operations and times 5.
  void Play(FakeWorker* fake, const std::function<void()>& play) {
    const std::string path = absl::StrCat(folder_, "/socket");
    ASSERT_OK_AND_ASSIGN(BenchListener listener, BenchListener::Listen(path));
    std::thread worker(
        [&] { ended_ = WorkPushPull(path, Job(), /*worker=*/0, "1.0", *fake); });
    absl::StatusOr<BenchChannel> accepted = listener.Accept();
    if (accepted.ok()) channel_ = *std::move(accepted);
    EXPECT_OK(channel_.Receive(&hello_));
    play();
    channel_ = BenchChannel();
    worker.join();
  }

  BenchReply Tell(const BenchCommand& command) {
    BenchReply reply;
    EXPECT_OK(channel_.Send(command));
    EXPECT_OK(channel_.Receive(&reply));
    return reply;
  }
  void Open() {
    BenchCommand open;
    open.mutable_open()->set_count(3);
    Tell(open);
    BenchCommand connect;
    for (const char* address : {"first", "second", ""}) {
      connect.mutable_connect()->add_addresses(address);
    }
    Tell(connect);
  }
  BenchReply Measure(bool check, int operations) {
    BenchCommand measure;
    measure.mutable_measure()->set_count(3);
    measure.mutable_measure()->set_check(check);
    measure.mutable_measure()->set_operations(operations);
    return Tell(measure);
  }
  BenchReply Settle() {
    BenchCommand settle;
    settle.mutable_settle();
    return Tell(settle);
  }

  BenchChannel channel_;
  BenchHello hello_;
  absl::Status ended_;
};

TEST_F(ProcessTest, AWorkerComesAfterTheServersAndKnowsTheirAddresses) {
  FakeWorker fake(/*echoes=*/false);
  Play(&fake, [&] { Open(); });
  EXPECT_OK(ended_);
  EXPECT_EQ(hello_.rank(), 2);
  EXPECT_EQ(hello_.ranks(), 3);
  EXPECT_EQ(hello_.version(), "1.0");
  EXPECT_THAT(fake.servers_, testing::ElementsAre("first", "second"));
}

TEST_F(ProcessTest, RightParametersAreRightAndTimesAreTaken) {
  FakeWorker fake(/*echoes=*/false);
  Play(&fake, [&] {
    for (int size = 0; size < 2; ++size) {  // Each begins anew.
      Open();
      EXPECT_EQ(Measure(/*check=*/true, 1).wrong(), 0);
      EXPECT_EQ(Measure(/*check=*/true, 2).wrong(), 0);
      EXPECT_EQ(Settle().wrong(), 0);
      const BenchReply timed = Measure(/*check=*/false, 5);
      EXPECT_EQ(timed.times_ns_size(), 5);
      EXPECT_GT(timed.processor_ns(), 0);
    }
  });
  EXPECT_OK(ended_);
}

TEST_F(ProcessTest, AWrongParameterShowsWhenAllHasSettled) {
  FakeWorker fake(/*echoes=*/false);
  fake.wrong_at_ = 1;
  Play(&fake, [&] {
    Open();
    EXPECT_EQ(Measure(/*check=*/true, 2).wrong(), 0);
    const BenchReply reply = Settle();
    EXPECT_EQ(reply.wrong(), 1);
    EXPECT_EQ(reply.first_wrong(), "worker 0, element 1: -4 instead of -5");
  });
}

TEST_F(ProcessTest, AWrongEchoShowsAtOnce) {
  FakeWorker fake(/*echoes=*/true);
  fake.wrong_at_ = 2;
  Play(&fake, [&] {
    Open();
    const BenchReply reply = Measure(/*check=*/true, 3);
    EXPECT_EQ(reply.wrong(), 1);
    EXPECT_EQ(reply.first_wrong(),
              "worker 0, element 1 did not come back as it was pushed");
    EXPECT_EQ(Settle().wrong(), 0);
  });
}

TEST_F(ProcessTest, AFailureIsToldAndEndsTheProcess) {
  FakeWorker fake(/*echoes=*/true);
  fake.fails_at_ = 2;
  Play(&fake, [&] {
    Open();
    EXPECT_EQ(Measure(/*check=*/false, 3).failure().message(), "server 1 is gone");
  });
  EXPECT_THAT(ended_, StatusIs(absl::StatusCode::kUnavailable, "server 1 is gone"));
}

}  // namespace
}  // namespace psring
