// Every contestant moves the same slots right, with ends that are threads.
#include "experiments/bench/push_pull/ends.h"

#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "experiments/bench/push_pull/check.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

constexpr int kWorkers = 3;

struct Case {
  std::string contestant;
  std::string mode = "sync {}";
  std::string wire = "fp32 {}";
};

class EndsTest : public testing::TestWithParam<std::tuple<Case, int, int64_t>> {
 protected:
  EndsTest() {
    const auto& [which, servers, slot_bytes] = GetParam();
    ends_.job = which.contestant;
    PushPullJob& job = ends_.settings;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("workers: ", kWorkers, " servers: ", servers, " slot_bytes: ",
                     slot_bytes, " mode { ", which.mode, " } wire { ", which.wire, " }"),
        &job));
    for (int server = 0; server < servers; ++server) {
      servers_.push_back(which.contestant == "psring" ? MakePsringServer(ends_, server)
                         : which.contestant == "grpc" ? MakeGrpcServer()
                                                      : MakeTcpServer(server));
    }
    for (int worker = 0; worker < kWorkers; ++worker) {
      workers_.push_back(which.contestant == "psring" ? MakePsringWorker(ends_, worker)
                         : which.contestant == "grpc" ? MakeGrpcWorker()
                                                      : MakeTcpWorker());
    }
  }

  // Opens so many floats, exchanges them as a benchmark does, and closes.
  void Measure(int64_t count) {
    const PushPullPlan plan = PlanPushPull(ends_.settings, count);
    std::vector<std::string> addresses;
    for (const auto& server : servers_) {
      ASSERT_OK_AND_ASSIGN(addresses.emplace_back(), server->Open(plan));
    }
    std::vector<std::vector<float>> gradients(kWorkers, std::vector<float>(count));
    std::vector<std::vector<float>> parameters = gradients;
    InAll([&](int worker) {
      ASSERT_OK(workers_[worker]->Connect(plan, gradients[worker], parameters[worker],
                                          addresses));
      for (int64_t operation = 0; operation < kOperations; ++operation) {
        for (int64_t i = 0; i < count; ++i) {
          gradients[worker][i] = PushPullInput(worker, operation, i);
        }
        ASSERT_OK(workers_[worker]->Exchange(/*land=*/true));
        if (!workers_[worker]->echoes()) continue;
        EXPECT_EQ(WrongEchoes(plan, gradients[worker], parameters[worker]).first, "");
      }
    });
    InAll([&](int worker) {
      gradients[worker].assign(count, 0.0f);
      // In which nothing has to land, several in a row.
      for (int i = 0; i < 3; ++i) ASSERT_OK(workers_[worker]->Exchange(/*land=*/false));
      ASSERT_OK(workers_[worker]->Exchange(/*land=*/true));
      if (workers_[worker]->echoes()) {
        EXPECT_EQ(WrongEchoes(plan, gradients[worker], parameters[worker]).first, "");
      } else {
        EXPECT_EQ(WrongParameters(ends_.settings.mode().has_sync(), kWorkers, kOperations,
                                  parameters[worker])
                      .first,
                  "");
      }
      workers_[worker]->Close();
    });
  }

  template <typename Run>
  static void InAll(const Run& run) {
    std::vector<std::thread> threads;
    for (int worker = 0; worker < kWorkers; ++worker) {
      threads.emplace_back([&run, worker] { run(worker); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  static constexpr int64_t kOperations = 4;
  PushPullEnds ends_;
  std::vector<std::unique_ptr<PushPullServer>> servers_;
  std::vector<std::unique_ptr<PushPullWorker>> workers_;
};

// One size after the other, a server without a slot and slots that divide nothing among
// them.
TEST_P(EndsTest, EverySizeComesBackRight) {
  for (const int64_t count : {1, 1000, 20'001, 3}) Measure(count);
}

INSTANTIATE_TEST_SUITE_P(
    All, EndsTest,
    testing::Combine(testing::Values(Case{"psring"}, Case{"grpc"}, Case{"tcp"},
                                     Case{"psring", "sync {}", "bf16 {}"},
                                     Case{"grpc", "sync {}", "bf16 {}"},
                                     Case{"tcp", "sync {}", "fp16 {}"},
                                     Case{"psring",
                                          "bounded { bound: 1 } "
                                          "stale_updates { scale: ONE }"},
                                     Case{"psring",
                                          "async {} stale_updates { scale: ONE }"}),
                     testing::Values(1, 2), testing::Values(256, 64 << 10)));

// Who is missing is named, and at once where that can be known.
TEST(LostServerTest, IsNamed) {
  PushPullJob job;
  job.set_workers(1);
  job.set_servers(2);
  job.set_slot_bytes(1 << 20);
  for (const char* const contestant : {"psring", "grpc", "tcp"}) {
    SCOPED_TRACE(contestant);
    const PushPullEnds ends{.job = contestant, .settings = job};
    const auto make = [&](int server) {
      return ends.job == "psring" ? MakePsringServer(ends, server)
             : ends.job == "grpc" ? MakeGrpcServer()
                                  : MakeTcpServer(server);
    };
    std::unique_ptr<PushPullServer> first = make(0), second = make(1);
    const auto worker = ends.job == "psring" ? MakePsringWorker(ends, 0)
                        : ends.job == "grpc" ? MakeGrpcWorker()
                                             : MakeTcpWorker();
    const PushPullPlan plan = PlanPushPull(job, 100);
    ASSERT_OK_AND_ASSIGN(const std::string first_address, first->Open(plan));
    ASSERT_OK_AND_ASSIGN(const std::string second_address, second->Open(plan));
    std::vector<float> gradients(100), parameters(100);
    ASSERT_OK(
        worker->Connect(plan, gradients, parameters, {first_address, second_address}));
    ASSERT_OK(worker->Exchange(/*land=*/true));
    second.reset();
    absl::Status status;
    // A socket may take a push that nobody will answer.
    for (int i = 0; i < 2 && status.ok(); ++i) status = worker->Exchange(/*land=*/true);
    EXPECT_THAT(status,
                StatusIs(absl::StatusCode::kUnavailable, testing::HasSubstr("server 1")));
    worker->Close();
  }
}

}  // namespace
}  // namespace psring
