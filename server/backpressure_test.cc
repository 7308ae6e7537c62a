// What 64 workers at once cost a server: memory that is bounded, whoever does not read,
// and no threads.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/computed_step_constants.h"
#include "common/memory_gauge.h"
#include "common/status_matchers.h"
#include "common/time_source.h"
#include "common/wire_protocol.h"
#include "glog/logging.h"
#include "grpc/grpc.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/experiment.pb.h"
#include "proto/parameter_server.grpc.pb.h"
#include "proto/parameter_server.pb.h"
#include "proto/record.pb.h"
#include "server/parameter_service.h"
#include "server/parameter_service_test_util.h"
#include "server/parameter_shard.h"
#include "server/policies.h"

namespace psring {
namespace {

constexpr int kWorkers = 64;
// An answer is larger than what a connection takes from a server that nobody reads.
constexpr int64_t kCount = 32 << 10;
constexpr int64_t kSlotBytes = kCount * int64_t{sizeof(float)};
constexpr int kSlot = 5;
// Only a bug uses it up.
constexpr auto kPatience = std::chrono::seconds(40);

// A worker on a connection of its own, whose operations end on the test's queue.
class Peer {
 public:
  Peer(int rank, int port, grpc::CompletionQueue* queue) : queue_(queue) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetMaxReceiveMessageSize(-1);
    // A window that stays as it is: what nobody reads is not taken from the server.
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    channel_ = grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port),
                                         grpc::InsecureChannelCredentials(), arguments);
    stub_ = ParameterService::NewStub(channel_);
    context_.AddMetadata(kHelloMetadata, HelloOf(rank).SerializeAsString());
    stream_ = stub_->PrepareAsyncExchange(&context_, queue_);
    request_.set_slot(kSlot);
  }

  void Connect() { stream_->StartCall(Tag(kStart)); }
  // So many exchanges, the next when the one before has been written.
  void SendExchanges(int64_t count) {
    request_.set_operation(ParameterRequest::EXCHANGE);
    request_.mutable_payload()->assign(kSlotBytes, '\0');
    to_send_ = count;
    SendNext();
  }
  void SendPull() {
    request_.set_operation(ParameterRequest::PULL);
    stream_->Write(request_, Tag(kWrite));
  }
  void Receive() { stream_->Read(&answer_, Tag(kRead)); }
  void Cancel() { context_.TryCancel(); }

  // Takes the next event from the queue and does what follows; false: none came for so
  // long.
  static bool TakeEvent(grpc::CompletionQueue* queue,
                        std::chrono::seconds patience = kPatience) {
    void* tag = nullptr;
    bool ok = false;
    const auto deadline = std::chrono::system_clock::now() + patience;
    if (queue->AsyncNext(&tag, &ok, deadline) != grpc::CompletionQueue::GOT_EVENT) {
      return false;
    }
    const auto* const event = static_cast<Event*>(tag);
    event->peer->OnDone(event->operation, ok);
    return true;
  }

  bool connected() const { return connected_; }
  int64_t received() const { return received_; }

 private:
  enum Operation { kStart, kWrite, kRead, kOperations };
  struct Event {
    Peer* peer = nullptr;
    Operation operation = kStart;
  };

  void* Tag(Operation operation) {
    events_[operation] = {.peer = this, .operation = operation};
    return &events_[operation];
  }
  void SendNext() {
    if (to_send_-- <= 0) return;
    request_.set_id(request_.id() + 1);
    stream_->Write(request_, Tag(kWrite));
    request_.set_step(request_.step() + 1);
  }
  void OnDone(Operation operation, bool ok) {
    if (!ok) return;  // The test has ended it.
    if (operation == kStart) connected_ = true;
    if (operation == kWrite) SendNext();
    if (operation == kRead) {
      EXPECT_FALSE(answer_.has_failure()) << answer_.failure().message();
      ++received_;
    }
  }

  grpc::CompletionQueue* const queue_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<ParameterService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<ParameterRequest, ParameterAnswer>>
      stream_;
  std::array<Event, kOperations> events_;
  ParameterRequest request_;
  ParameterAnswer answer_;
  int64_t to_send_ = 0;
  bool connected_ = false;
  int64_t received_ = 0;
};

class BackpressureTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { grpc_init(); }

  // A server that applies every push when it comes.
  void Start() {
    ParameterServerMode mode;
    mode.mutable_async();
    ParameterShard::Options options;
    options.slots = {{.index = kSlot,
                      .bucket = 0,
                      .server = 0,
                      .range = {.begin = 0, .count = kCount}}};
    options.bucket_ranges = {{.begin = 0, .count = kCount}};
    options.workers = kWorkers;
    options.optimizer.mutable_sgd()->set_learning_rate(1);
    options.constants =
        std::make_shared<ComputedStepConstants>(options.optimizer, /*steps=*/100000);
    options.time = &time_;
    options.memory = &memory_;
    options.on_contribution = [this](const ContributionRecord& contribution) {
      ++counted_[contribution.rank()];
    };
    ASSERT_OK_AND_ASSIGN(auto policy, MakePolicy(mode, kWorkers));
    shard_ = std::make_shared<ParameterShard>(std::move(options), std::move(policy));
    host_ = std::make_unique<ParameterServerHost>(
        ParameterServerHost::Options{.job = "job",
                                     .fingerprint = kFingerprint,
                                     .wire = {},
                                     .stall_timeout = absl::InfiniteDuration()},
        shard_);
    ASSERT_OK_AND_ASSIGN(const int port, host_->Start("127.0.0.1:0"));
    for (int rank = 0; rank < kWorkers; ++rank) {
      peers_.push_back(std::make_unique<Peer>(rank, port, &queue_));
      peers_.back()->Connect();
    }
    AwaitAll([](const Peer& peer) { return peer.connected(); });
  }

  template <typename Condition>
  void AwaitAll(Condition condition) {
    for (const auto& peer : peers_) {
      while (!condition(*peer)) ASSERT_TRUE(Peer::TakeEvent(&queue_));
    }
  }

  void TearDown() override {
    for (const auto& peer : peers_) peer->Cancel();
    if (host_ != nullptr) host_->Shutdown(absl::ZeroDuration());
    queue_.Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_.Next(&tag, &ok)) {
    }
  }

  const RealTime time_;
  MemoryGauges memory_;
  std::array<std::atomic<int64_t>, kWorkers> counted_{};
  std::shared_ptr<ParameterShard> shard_;
  std::unique_ptr<ParameterServerHost> host_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<Peer>> peers_;
};

int64_t ThreadsOfThisProcess() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (absl::StartsWith(line, "Threads:")) return std::stoll(line.substr(8));
  }
  LOG(FATAL) << "the process has no number of threads";
}

TEST_F(BackpressureTest, WhoDoesNotReadItsAnswersCostsNoMoreThanTheFormula) {
  constexpr int64_t kFlood = 8;
  constexpr int64_t kOrderly = 20;
  Start();
  ASSERT_OK(shard_->Initialize(kSlot, std::vector<float>(kCount, 1.0f)));
  // All but one push what they can, and read nothing. Each is heard.
  for (int rank = 1; rank < kWorkers; ++rank) peers_[rank]->SendExchanges(kFlood);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (int rank = 1; rank < kWorkers; ++rank) {
    while (counted_[rank] < 2) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline)
          << "rank " << rank << " was heard " << counted_[rank] << " times";
      Peer::TakeEvent(&queue_, std::chrono::seconds(0));
    }
  }
  // Meanwhile the orderly one gets one answer after another.
  for (int64_t exchange = 1; exchange <= kOrderly; ++exchange) {
    peers_[0]->SendExchanges(1);
    peers_[0]->Receive();
    while (peers_[0]->received() < exchange) ASSERT_TRUE(Peer::TakeEvent(&queue_));
  }
  // Two versions for each of the answers that wait, and one that its connection may not
  // have let go of.
  const auto older = memory_.Of(memory_purpose::kOlderVersions);
  const auto contributions = memory_.Of(memory_purpose::kContributions);
  EXPECT_LE(older->peak(), 3 * kWorkers * kSlotBytes);
  EXPECT_GE(older->peak(), kWorkers * kSlotBytes);
  EXPECT_LE(contributions->peak(), kWorkers * kSlotBytes);
  // Whoever reads again goes on where it was.
  for (int64_t answer = 1; answer <= kFlood; ++answer) {
    for (int rank = 1; rank < kWorkers; ++rank) peers_[rank]->Receive();
    for (int rank = 1; rank < kWorkers; ++rank) {
      while (peers_[rank]->received() < answer) {
        ASSERT_TRUE(Peer::TakeEvent(&queue_));
      }
    }
  }
  for (int rank = 1; rank < kWorkers; ++rank) EXPECT_EQ(counted_[rank], kFlood);
  EXPECT_EQ(counted_[0], kOrderly);
  EXPECT_LE(older->peak(), 3 * kWorkers * kSlotBytes);
}

TEST_F(BackpressureTest, ParkedPullsCostNoThreads) {
  Start();
  const int64_t before = ThreadsOfThisProcess();
  for (const auto& peer : peers_) peer->SendPull();  // Nobody has initialized the slot.
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (shard_->parked_pulls() != kWorkers) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline)
        << shard_->parked_pulls() << " pulls are parked";
    std::this_thread::yield();
  }
  // gRPC starts a few of its own when it likes.
  EXPECT_LT(ThreadsOfThisProcess() - before, kWorkers / 8);
  ASSERT_OK(shard_->Initialize(kSlot, std::vector<float>(kCount, 1.0f)));
  for (const auto& peer : peers_) peer->Receive();
  AwaitAll([](const Peer& peer) { return peer.received() == 1; });
  EXPECT_EQ(shard_->parked_pulls(), 0);
}

}  // namespace
}  // namespace psring
