// Gradients in fewer bits through the whole parameter-server path, workers as threads:
// against what is sent by the codec alone, summed and applied here.
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/arithmetic.h"
#include "common/gradient_codec.h"
#include "common/optimizer.h"
#include "common/ring_order.h"
#include "common/schedule.h"
#include "common/status_matchers.h"
#include "common/wire_type.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/exchange_test_util.h"
#include "tests/parameter_server_cluster.h"

namespace psring {
namespace {

constexpr int kWorkers = 3;
constexpr int kServers = 2;
constexpr int64_t kSteps = 6;

WireType TypeOf(const std::string& text) {
  Wire wire;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &wire)) << text;
  return wire;
}

// What one worker's gradients are once they have been sent, slot by slot.
class Sent {
 public:
  Sent(const WireType& wire, const SlotPlan& plan, int64_t count)
      : wire_(wire), plan_(plan), left_out_(count), scratch_(count) {}

  std::vector<float> Send(const std::vector<float>& gradient) {
    std::vector<float> sent = gradient;
    drift_ = {};
    for (const Slot& slot : plan_.slots) {
      const auto of = [&slot](std::vector<float>& values) {
        return std::span(values).subspan(slot.range.begin, slot.range.count);
      };
      std::vector<std::byte> bytes(wire_.EncodedBytes(slot.range.count));
      const Encoding encoding = EncodeGradient(
          wire_, of(sent), {.left_out = of(left_out_), .scratch = scratch_}, bytes);
      drift_.Add(encoding.drift);
      const Bytes whole = bytes;
      EXPECT_OK(DecodeGradient(wire_, {&whole, 1}, of(sent)));
    }
    return sent;
  }
  const Drift& drift() const { return drift_; }

 private:
  const WireType wire_;
  const SlotPlan& plan_;
  std::vector<float> left_out_;
  std::vector<uint32_t> scratch_;
  Drift drift_;
};

using Param = std::tuple<ChannelKind, std::string>;

class WireExchangeTest : public testing::TestWithParam<Param> {
 protected:
  WireExchangeTest()
      : wire_(TypeOf(std::get<1>(GetParam()))),
        cluster_({.kind = std::get<0>(GetParam()),
                  .buckets = buckets_,
                  .servers = kServers,
                  .workers = kWorkers,
                  .mode = ModeOf("sync {}"),
                  .optimizer = TestOptimizer(),
                  .steps = kSteps,
                  .wire = wire_}),
        workers_(MakeWorkers(kWorkers, buckets_, cluster_)) {
    for (int rank = 0; rank < kWorkers; ++rank) {
      sent_.emplace_back(wire_, cluster_.plan(), Count(buckets_));
    }
  }

  // Encoded bytes of all slots of a server.
  int64_t PushedTo(int server) const {
    int64_t bytes = 0;
    for (const int slot : cluster_.plan().of_server[server]) {
      bytes += wire_.EncodedBytes(cluster_.plan().slots[slot].range.count);
    }
    return bytes;
  }

  const BucketPlan buckets_ = TestBuckets();
  const WireType wire_;
  ParameterServerCluster cluster_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Sent> sent_;
};

TEST_P(WireExchangeTest, ServersApplyWhatWasSentAndBytesAreTheFormulas) {
  RunWorkers(workers_, [](Worker& worker) { ASSERT_OK(worker.Bind()); });
  const int64_t count = Count(buckets_);
  std::vector<float> parameters(count);
  for (int64_t i = 0; i < count; ++i) parameters[i] = InitialParameter(i);
  SliceOptimizer optimizer(TestOptimizer(), count);
  for (int64_t step = 0; step < kSteps; ++step) {
    std::vector<std::vector<float>> sent;
    for (int rank = 0; rank < kWorkers; ++rank) {
      std::vector<float> gradient(count);
      for (int64_t i = 0; i < count; ++i) {
        gradient[i] = Gradient(rank, step, i, parameters[i]);
      }
      sent.push_back(sent_[rank].Send(gradient));
    }
    std::vector<float> mean(count);
    for (const Bucket& bucket : buckets_.buckets) {
      for (int chunk = 0; chunk < kWorkers; ++chunk) {
        const Range part = PartitionRange(bucket.range.count, kWorkers, chunk);
        for (int64_t k = part.begin; k < part.end(); ++k) {
          const int64_t i = bucket.range.begin + k;
          float sum = sent[RingFoldRank(chunk, 0, kWorkers)][i];
          for (int position = 1; position < kWorkers; ++position) {
            sum = sum + sent[RingFoldRank(chunk, position, kWorkers)][i];
          }
          mean[i] = sum * MeanFactor(kWorkers);
        }
      }
    }
    optimizer.Apply(StepConstantsAt(TestOptimizer(), kSteps, step), 0, parameters, mean);
    RunWorkers(workers_, [&](Worker& worker) {
      ASSERT_OK(worker.LaunchAll(step));
      ASSERT_OK_AND_ASSIGN(const StepReport report, worker.exchange.Finish(step));
      ASSERT_TRUE(report.drift.has_value());
      EXPECT_EQ(report.drift->max, sent_[worker.rank].drift().max);
      EXPECT_EQ(report.drift->count, sent_[worker.rank].drift().count);
      EXPECT_GT(report.drift->max, 0);
    });
    for (const auto& worker : workers_) {
      ASSERT_TRUE(Bits(worker->parameters) == Bits(parameters))
          << "rank " << worker->rank << " after step " << step;
    }
  }
  int64_t pushed = 0;
  for (int server = 0; server < kServers; ++server) {
    pushed += PushedTo(server);
    const ExchangeTraffic traffic = cluster_.shard(server).traffic();
    EXPECT_EQ(traffic.payload_in, kSteps * kWorkers * PushedTo(server));
    EXPECT_EQ(traffic.payload_out,
              kSteps * ServerStepBytes(cluster_.plan(), server, kWorkers));
  }
  for (const auto& worker : workers_) {
    const ExchangeTraffic traffic = worker->exchange.traffic();
    EXPECT_EQ(traffic.payload_out, kSteps * pushed);
    EXPECT_EQ(traffic.payload_in, kSteps * WorkerStepBytes(cluster_.plan()));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Wires, WireExchangeTest,
    testing::Combine(testing::Values(ChannelKind::kInProcess, ChannelKind::kGrpc,
                                     ChannelKind::kDelayed, ChannelKind::kPlain),
                     testing::Values("bf16 {}", "fp16 {}", "int8 {}",
                                     "top_k { share: 0.3 }")),
    [](const auto& info) {
      const std::string& wire = std::get<1>(info.param);
      return absl::StrCat(ChannelKindName(std::get<0>(info.param)), "_",
                          wire.substr(0, wire.find(' ')));
    });

// A value that no number of 16 bits is near ends the exchange, and with it all waiting.
TEST(WireExchangeErrorTest, WhatCannotBeSentEndsTheStep) {
  const BucketPlan buckets = TestBuckets();
  ParameterServerCluster cluster({.buckets = buckets,
                                  .servers = 1,
                                  .workers = 1,
                                  .mode = ModeOf("sync {}"),
                                  .optimizer = TestOptimizer(),
                                  .wire = TypeOf("fp16 {}")});
  Worker worker(0, buckets, cluster);
  ASSERT_OK(worker.Bind());
  for (const Bucket& bucket : buckets.buckets) {
    for (int64_t i = bucket.range.begin; i < bucket.range.end(); ++i) {
      worker.gradients[i] = bucket.index == 1 && i == bucket.range.begin + 1 ? 70000 : 1;
    }
    // Refused at once, or by the one that finds the error.
    (void)worker.exchange.Launch(0, bucket, ReadyEvent::Happened());
  }
  EXPECT_THAT(worker.exchange.Finish(0),
              StatusIs(absl::StatusCode::kOutOfRange,
                       testing::AllOf(testing::HasSubstr("rank 0: element 1 of the"),
                                      testing::HasSubstr("cannot be sent as fp16"))));
}

}  // namespace
}  // namespace psring
