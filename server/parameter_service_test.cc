// The service as any gRPC client sees it: a plain generated stub against a real server.
#include "server/parameter_service.h"

#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/computed_step_constants.h"
#include "common/errors.h"
#include "common/grpc_status.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "grpc/grpc.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/parameter_server.grpc.pb.h"
#include "proto/parameter_server.pb.h"
#include "server/sync_policy.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;

std::string PayloadOf(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(float));
}

std::vector<float> FloatsOf(const std::string& payload) {
  std::vector<float> values(payload.size() / sizeof(float));
  std::memcpy(values.data(), payload.data(), values.size() * sizeof(float));
  return values;
}

// A pull that is on its way, until the test wants its outcome.
struct PendingPull {
  grpc::ClientContext context;
  PullRequest request;
  PullResponse response;
  std::promise<absl::Status> done;

  absl::Status Outcome() { return done.get_future().get(); }
};

// One server with one slot of `count` elements, two workers.
class ParameterServiceTest : public testing::Test {
 protected:
  // gRPC is kept until the process ends: where its last object goes after large writes,
  // its clean-up may wait ten seconds for a poller of its own.
  static void SetUpTestSuite() { grpc_init(); }

  void Start(int64_t count = 3, absl::Duration stall_timeout = absl::InfiniteDuration()) {
    ParameterShard::Options options;
    options.slots = {
        {.index = 5, .bucket = 0, .server = 0, .range = {.begin = 0, .count = count}}};
    options.bucket_ranges = {{.begin = 0, .count = count}};
    options.workers = 2;
    options.optimizer.mutable_sgd()->set_learning_rate(1);
    options.constants =
        std::make_shared<ComputedStepConstants>(options.optimizer, /*steps=*/10);
    shard_ =
        std::make_shared<ParameterShard>(options, std::make_unique<const SyncPolicy>());
    host_ = std::make_unique<ParameterServerHost>(
        ParameterServerHost::Options{.job = "job", .stall_timeout = stall_timeout},
        shard_);
    ASSERT_OK_AND_ASSIGN(port_, host_->Start("127.0.0.1:0"));
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    stub_ = ParameterService::NewStub(
        grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port_),
                                  grpc::InsecureChannelCredentials(), arguments));
  }

  // Requests with everything right; tests spoil one field.
  static InitializeRequest GoodInitialize() {
    InitializeRequest request;
    request.set_job("job");
    request.set_slot(5);
    request.set_payload(PayloadOf({1, 2, 3}));
    return request;
  }
  static PushRequest GoodPush(int rank) {
    PushRequest request;
    request.set_job("job");
    request.set_rank(rank);
    request.set_slot(5);
    request.set_payload(PayloadOf({1, 1, 1}));
    return request;
  }
  static PullRequest GoodPull(int rank, int64_t step) {
    PullRequest request;
    request.set_job("job");
    request.set_rank(rank);
    request.set_step(step);
    request.set_slot(5);
    return request;
  }

  absl::Status Initialize(const InitializeRequest& request) {
    grpc::ClientContext context;
    InitializeResponse response;
    return FromGrpc(stub_->Initialize(&context, request, &response));
  }
  absl::Status Push(const PushRequest& request) {
    grpc::ClientContext context;
    PushResponse response;
    return FromGrpc(stub_->Push(&context, request, &response));
  }
  absl::StatusOr<PullResponse> Pull(const PullRequest& request) {
    grpc::ClientContext context;
    PullResponse response;
    const absl::Status status = FromGrpc(stub_->Pull(&context, request, &response));
    if (!status.ok()) return status;
    return response;
  }
  std::unique_ptr<PendingPull> StartPull(const PullRequest& request) {
    auto pull = std::make_unique<PendingPull>();
    pull->request = request;
    stub_->async()->Pull(&pull->context, &pull->request, &pull->response,
                         [pull = pull.get()](const grpc::Status& status) {
                           pull->done.set_value(FromGrpc(status));
                         });
    return pull;
  }
  // Returns when so many pulls are parked.
  void AwaitParked(int64_t count) {
    while (shard_->parked_pulls() != count) std::this_thread::yield();
  }

  std::shared_ptr<ParameterShard> shard_;
  std::unique_ptr<ParameterServerHost> host_;
  int port_ = 0;
  std::unique_ptr<ParameterService::Stub> stub_;
};

TEST_F(ParameterServiceTest, ARoundOverTheWire) {
  Start();
  const auto initial = StartPull(GoodPull(1, 0));
  ASSERT_OK(Initialize(GoodInitialize()));
  ASSERT_OK(initial->Outcome());
  EXPECT_EQ(initial->response.version(), 0);
  EXPECT_THAT(FloatsOf(initial->response.payload()), ElementsAre(1, 2, 3));

  const auto next = StartPull(GoodPull(0, 1));
  ASSERT_OK(Push(GoodPush(0)));
  ASSERT_OK(Push(GoodPush(1)));
  ASSERT_OK(next->Outcome());
  EXPECT_EQ(next->response.version(), 1);
  EXPECT_THAT(FloatsOf(next->response.payload()), ElementsAre(0, 1, 2));
}

TEST_F(ParameterServiceTest, ASlotMayExceedTheTransportsDefaultLimit) {
  constexpr int64_t kCount = 2 << 20;  // 8 MiB; the default is 4.
  Start(kCount);
  InitializeRequest request = GoodInitialize();
  request.set_payload(PayloadOf(std::vector<float>(kCount, 1)));
  ASSERT_OK(Initialize(request));
  for (int rank = 0; rank < 2; ++rank) {
    PushRequest push = GoodPush(rank);
    push.set_payload(PayloadOf(std::vector<float>(kCount, 2)));
    ASSERT_OK(Push(push));
  }
  ASSERT_OK_AND_ASSIGN(const PullResponse response, Pull(GoodPull(0, 1)));
  EXPECT_EQ(FloatsOf(response.payload()), std::vector<float>(kCount, -1));
}

TEST_F(ParameterServiceTest, RefusesRequestsThatDoNotFit) {
  Start();
  const auto is_invalid = [](const std::string& part) {
    return StatusIs(kInvalidArgument, HasSubstr(part));
  };
  InitializeRequest initialize = GoodInitialize();
  initialize.set_job("other");
  EXPECT_THAT(Initialize(initialize),
              is_invalid("this server is of job \"job\", the request of \"other\""));
  initialize = GoodInitialize();
  initialize.set_payload("12345");
  EXPECT_THAT(Initialize(initialize), is_invalid("5 bytes, which are no whole floats"));
  initialize = GoodInitialize();
  initialize.set_slot(4);
  EXPECT_THAT(Initialize(initialize), is_invalid("slot 4, the slots here are: 5"));
  initialize = GoodInitialize();
  initialize.clear_payload();
  EXPECT_THAT(Initialize(initialize), is_invalid("has 3 elements here"));
  EXPECT_THAT(Push(GoodPush(0)), StatusIs(absl::StatusCode::kFailedPrecondition,
                                          HasSubstr("slot 5 is not initialized")));
  ASSERT_OK(Initialize(GoodInitialize()));

  PushRequest push = GoodPush(0);
  push.set_job("");
  EXPECT_THAT(Push(push), is_invalid("the request of \"\""));
  push = GoodPush(0);
  push.set_payload("1234567");
  EXPECT_THAT(Push(push), is_invalid("7 bytes"));
  push = GoodPush(0);
  push.clear_payload();
  EXPECT_THAT(Push(push), is_invalid("3 elements here, the push of rank 0 carries 0"));
  push = GoodPush(0);
  push.set_payload(PayloadOf({1, 1}));
  EXPECT_THAT(Push(push), is_invalid("3 elements here, the push of rank 0 carries 2"));
  push = GoodPush(0);
  push.set_slot(-1);
  EXPECT_THAT(Push(push), is_invalid("slot -1"));
  push = GoodPush(0);
  push.set_step(-1);
  EXPECT_THAT(Push(push), is_invalid("step -1"));
  push = GoodPush(0);
  push.set_step(1);
  EXPECT_THAT(Push(push), StatusIs(absl::StatusCode::kFailedPrecondition,
                                   HasSubstr("which has not begun")));
  EXPECT_THAT(Push(GoodPush(2)), is_invalid("rank 2"));
  EXPECT_THAT(Push(GoodPush(-1)), is_invalid("rank -1"));

  PullRequest pull = GoodPull(0, 0);
  pull.set_job("other");
  EXPECT_THAT(Pull(pull), is_invalid("the request of \"other\""));
  pull = GoodPull(0, 0);
  pull.set_slot(6);
  EXPECT_THAT(Pull(pull), is_invalid("slot 6"));
  EXPECT_THAT(Pull(GoodPull(2, 0)), is_invalid("rank 2"));
  EXPECT_THAT(Pull(GoodPull(0, -1)), is_invalid("step -1"));

  // The server is as if nothing had happened.
  ASSERT_OK(Push(GoodPush(0)));
  ASSERT_OK(Push(GoodPush(1)));
  ASSERT_OK_AND_ASSIGN(const PullResponse response, Pull(GoodPull(0, 1)));
  EXPECT_THAT(FloatsOf(response.payload()), ElementsAre(0, 1, 2));
}

TEST_F(ParameterServiceTest, ACancelledPullLeavesTheShard) {
  Start();
  ASSERT_OK(Initialize(GoodInitialize()));
  const auto gone = StartPull(GoodPull(0, 1));
  AwaitParked(1);
  gone->context.TryCancel();
  EXPECT_THAT(gone->Outcome(), StatusIs(absl::StatusCode::kCancelled, testing::_));
  AwaitParked(0);
}

TEST_F(ParameterServiceTest, AStalledPullIsAnsweredWithTheNamesOfTheMissing) {
  Start(/*count=*/3, /*stall_timeout=*/absl::Milliseconds(1));
  ASSERT_OK(Initialize(GoodInitialize()));
  ASSERT_OK(Push(GoodPush(0)));
  const absl::Status status = Pull(GoodPull(0, 1)).status();
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("slot 5, pulled by rank 0 for step 1"),
                             HasSubstr("waits for the push of step 0 by rank 1"))));
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kPeerLost);
  EXPECT_EQ(shard_->parked_pulls(), 0);
}

TEST_F(ParameterServiceTest, AnAbortReachesParkedPullsWithItsExitCode) {
  Start();
  const auto parked = StartPull(GoodPull(0, 0));
  AwaitParked(1);
  shard_->Abort(CheckFailedError("replicas differ"));
  const absl::Status status = parked->Outcome();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss, "replicas differ"));
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kCheckFailed);
}

TEST_F(ParameterServiceTest, ShutdownAnswersParkedPullsAndReturns) {
  Start();
  const auto parked = StartPull(GoodPull(0, 0));
  AwaitParked(1);
  host_->Shutdown(absl::InfiniteDuration());
  EXPECT_THAT(parked->Outcome(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("shutting down")));
  host_->Shutdown(absl::ZeroDuration());
}

TEST_F(ParameterServiceTest, AnAddressInUseIsAnError) {
  Start();
  ParameterServerHost second({.job = "job"}, shard_);
  EXPECT_THAT(second.Start(absl::StrCat("127.0.0.1:", port_)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("cannot listen at")));
}

}  // namespace
}  // namespace psring
