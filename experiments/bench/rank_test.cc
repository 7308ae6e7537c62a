#include "experiments/bench/rank.h"

#include <filesystem>
#include <functional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "experiments/bench/channel.h"
#include "experiments/bench/inputs.h"
#include "experiments/bench/socket_folder_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/bench.pb.h"

namespace psring {
namespace {

using testing::HasSubstr;

// Rank 0 of two, whose partner is imaginary.
class FakeRank final : public BenchRank {
 public:
  // `sum` sees the prepared values, and how many operations came before.
  using Sum = std::function<absl::Status(std::span<float> values, int operation)>;
  explicit FakeRank(Sum sum) : sum_(std::move(sum)) {}

  std::string address() const override { return "here"; }
  std::string version() const override { return "1.0"; }
  absl::Status Connect(const std::vector<std::string>& addresses) override {
    connected_ = absl::StrCat(addresses[0], " and ", addresses[1]);
    return absl::OkStatus();
  }
  absl::StatusOr<std::span<float>> Prepare(int64_t count) override {
    values_.resize(count);
    operation_ = 0;
    return values_;
  }
  absl::Status AllReduce() override { return sum_(values_, operation_++); }

  const std::string& connected() const { return connected_; }

 private:
  const Sum sum_;
  std::string connected_;
  std::vector<float> values_;
  int operation_ = 0;
};

// What a rank gets that sums right.
absl::Status AddPartner(std::span<float> values, int operation) {
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] += BenchInput(1, operation, static_cast<int64_t>(i));
  }
  return absl::OkStatus();
}

// Plays the launcher against a rank in a thread.
class BenchRankTest : public SocketFolderTest {
 protected:
  // Sends the commands in turn, and ends the channel; returns the replies.
  std::vector<BenchReply> Drive(FakeRank& rank,
                                const std::vector<BenchCommand>& commands) {
    const std::string path = absl::StrCat(folder_, "/socket");
    absl::StatusOr<BenchListener> listener = BenchListener::Listen(path);
    if (!listener.ok()) {
      ADD_FAILURE() << listener.status();
      return {};
    }
    std::thread thread([&] { served_ = ServeBench(path, 0, 2, rank); });
    std::vector<BenchReply> replies;
    {
      absl::StatusOr<BenchChannel> channel = listener->Accept();
      EXPECT_THAT(channel->Receive(&hello_), IsOk());
      for (const BenchCommand& command : commands) {
        EXPECT_THAT(channel->Send(command), IsOk());
        EXPECT_THAT(channel->Receive(&replies.emplace_back()), IsOk());
      }
    }
    thread.join();
    return replies;
  }

  static BenchCommand Measure(int64_t count, int operations, bool check) {
    BenchCommand command;
    command.mutable_measure()->set_count(count);
    command.mutable_measure()->set_operations(operations);
    command.mutable_measure()->set_check(check);
    return command;
  }

  BenchHello hello_;
  absl::Status served_;
};

TEST_F(BenchRankTest, IntroducesItselfConnectsAndEndsWithTheChannel) {
  FakeRank rank(AddPartner);
  BenchCommand connect;
  connect.mutable_connect()->add_addresses("here");
  connect.mutable_connect()->add_addresses("there");
  const std::vector<BenchReply> replies = Drive(rank, {connect});
  EXPECT_EQ(hello_.rank(), 0);
  EXPECT_EQ(hello_.ranks(), 2);
  EXPECT_EQ(hello_.address(), "here");
  EXPECT_EQ(hello_.version(), "1.0");
  ASSERT_EQ(replies.size(), 1);
  EXPECT_EQ(replies[0].failure().status_code(), 0);
  EXPECT_EQ(rank.connected(), "here and there");
  EXPECT_OK(served_);
}

TEST_F(BenchRankTest, TimesEveryOperationOnZeros) {
  bool zeros = true;
  FakeRank rank([&](std::span<float> values, int) {
    for (const float value : values) zeros = zeros && value == 0;
    return absl::OkStatus();
  });
  const std::vector<BenchReply> replies = Drive(rank, {Measure(5, 7, false)});
  ASSERT_EQ(replies.size(), 1);
  EXPECT_EQ(replies[0].times_ns_size(), 7);
  for (const int64_t time : replies[0].times_ns()) EXPECT_GE(time, 0);
  EXPECT_TRUE(zeros);
}

TEST_F(BenchRankTest, RightSumsAreRight) {
  FakeRank rank(AddPartner);
  const std::vector<BenchReply> replies = Drive(rank, {Measure(1000, 3, true)});
  ASSERT_EQ(replies.size(), 1);
  EXPECT_EQ(replies[0].wrong(), 0);
  EXPECT_EQ(replies[0].first_wrong(), "");
  EXPECT_EQ(replies[0].times_ns_size(), 0);
}

TEST_F(BenchRankTest, WrongSumsAreCountedAndNameTheCulprit) {
  FakeRank rank([](std::span<float> values, int operation) {
    if (operation == 1) return absl::OkStatus();  // Nobody's values came.
    return AddPartner(values, operation);
  });
  const std::vector<BenchReply> replies = Drive(rank, {Measure(1000, 3, true)});
  ASSERT_EQ(replies.size(), 1);
  EXPECT_EQ(replies[0].wrong(), 1000);
  EXPECT_THAT(
      replies[0].first_wrong(),
      HasSubstr("rank 0, element 0: 66 instead of 196: rank 1's value is missing"));
}

TEST_F(BenchRankTest, CheckedOperationsAreNumberedOnOverCommands) {
  int before = 0;
  FakeRank rank([&](std::span<float> values, int operation) {
    return AddPartner(values, before + operation);
  });
  const std::vector<BenchReply> first = Drive(rank, {Measure(10, 1, true)});
  before = 1;
  BenchCommand rest = Measure(10, 2, true);
  rest.mutable_measure()->set_first_operation(1);
  std::filesystem::remove(absl::StrCat(folder_, "/socket"));
  const std::vector<BenchReply> second = Drive(rank, {rest});
  ASSERT_EQ(first.size(), 1);
  ASSERT_EQ(second.size(), 1);
  EXPECT_EQ(first[0].wrong() + second[0].wrong(), 0) << second[0].first_wrong();
}

TEST_F(BenchRankTest, AStaleResultIsWrong) {
  std::vector<float> first;
  FakeRank rank([&](std::span<float> values, int operation) {
    if (operation == 0) {
      const absl::Status status = AddPartner(values, operation);
      first.assign(values.begin(), values.end());
      return status;
    }
    std::copy(first.begin(), first.end(), values.begin());
    return absl::OkStatus();
  });
  const std::vector<BenchReply> replies = Drive(rank, {Measure(10, 2, true)});
  ASSERT_EQ(replies.size(), 1);
  EXPECT_EQ(replies[0].wrong(), 10);
}

TEST_F(BenchRankTest, AFailureReachesTheLauncherAndEndsTheRank) {
  FakeRank rank([](std::span<float>, int) { return absl::InternalError("broken"); });
  const std::vector<BenchReply> replies = Drive(rank, {Measure(10, 2, false)});
  ASSERT_EQ(replies.size(), 1);
  EXPECT_EQ(replies[0].failure().message(), "broken");
  EXPECT_THAT(served_, StatusIs(absl::StatusCode::kInternal, "broken"));
}

}  // namespace
}  // namespace psring
