#include "experiments/bench/push_pull/result.h"

#include <vector>

#include "gtest/gtest.h"

namespace psring {
namespace {

PushPullJob Job(int workers, int servers) {
  PushPullJob job;
  job.set_workers(workers);
  job.set_servers(servers);
  job.set_slot_bytes(1 << 20);
  return job;
}

// Medians 2 and 4 ms over two rounds.
const std::vector<BenchRound> kOne = {
    {.times_ns = {1'000'000, 2'000'000}, .wrong = 0, .processor_ns = 8'000'000},
    {.times_ns = {4'000'000, 2'000'000}, .wrong = 3, .processor_ns = 12'000'000}};

TEST(ResultTest, ARowIsWhatItsColumnsSay) {
  const auto rows = MakePushPullRows(1'000'000, Job(3, 2), {"tcp"}, {kOne});
  ASSERT_EQ(rows.size(), 1);
  const PushPullRow& row = rows[0];
  EXPECT_EQ(row.size_bytes, 1'000'000);
  EXPECT_EQ(row.contestant, "tcp");
  EXPECT_EQ(row.min_us, 1000);
  EXPECT_EQ(row.median_us, 2000);
  EXPECT_EQ(row.p99_us, 4000);
  EXPECT_DOUBLE_EQ(row.out, 0.5);
  EXPECT_DOUBLE_EQ(row.in, 0.5);
  // Three workers, two servers.
  EXPECT_DOUBLE_EQ(row.server_in_and_out, 1.5);
  // 20 ms for four iterations of three workers, 2 MB each.
  EXPECT_DOUBLE_EQ(row.processor_seconds_per_gb, 20e-3 / 24e-3);
  EXPECT_EQ(row.wrong, 3);
}

TEST(ResultTest, GradientsOfSixteenBitsAreHalfOfWhatComesBack) {
  PushPullJob job = Job(1, 1);
  job.mutable_wire()->mutable_bf16();
  const PushPullRow row = MakePushPullRows(1'000'000, job, {"tcp"}, {kOne})[0];
  EXPECT_DOUBLE_EQ(row.out, 0.25);
  EXPECT_DOUBLE_EQ(row.in, 0.5);
  EXPECT_DOUBLE_EQ(row.server_in_and_out, 0.75);
  EXPECT_DOUBLE_EQ(row.processor_seconds_per_gb, 20e-3 / 6e-3);
}

TEST(ResultTest, WithoutAnyCheckedNothingIsKnownToBeWrong) {
  EXPECT_EQ(MakePushPullRows(4, Job(1, 1), {"tcp"},
                             {{{.times_ns = {5}, .wrong = std::nullopt}}})[0]
                .wrong,
            std::nullopt);
}

TEST(ResultTest, RatiosAreOfRoundsAndOfThePairsThatTakePart) {
  // Psring takes 2, 3 and 1 times as long as gRPC, which takes 4 times as long as
  // sockets.
  const auto rounds_of = [](std::vector<int64_t> times) {
    std::vector<BenchRound> rounds;
    for (const int64_t time : times) {
      rounds.push_back(
          {.times_ns = {time, time}, .wrong = std::nullopt, .processor_ns = 10 * time});
    }
    return rounds;
  };
  const std::vector<std::vector<BenchRound>> rounds = {rounds_of({100, 100, 100}),
                                                       rounds_of({800, 1200, 400}),
                                                       rounds_of({400, 400, 400})};
  const auto ratios = MakePushPullRatios(4 << 10, 1, {"tcp", "psring", "grpc"}, rounds);
  ASSERT_EQ(ratios.size(), 2);
  EXPECT_EQ(ratios[0].contestant + " / " + ratios[0].reference, "psring / grpc");
  EXPECT_DOUBLE_EQ(ratios[0].time, 2);
  EXPECT_DOUBLE_EQ(ratios[0].goodput, 0.5);
  EXPECT_DOUBLE_EQ(ratios[0].processor, 2);
  EXPECT_EQ(ratios[1].contestant + " / " + ratios[1].reference, "grpc / tcp");
  EXPECT_DOUBLE_EQ(ratios[1].time, 4);

  EXPECT_EQ(MakePushPullRatios(4, 1, {"psring", "tcp"}, {kOne, kOne}).size(), 0);
}

TEST(ResultTest, WhatIsWantedDependsOnTheSizeAndTheWorkers) {
  const auto of = [](int64_t size, int workers = 1) {
    return MakePushPullRatios(size, workers, {"psring", "grpc", "tcp"},
                              {kOne, kOne, kOne});
  };
  EXPECT_EQ(of(4 << 10)[0].most_time, 1.3);
  EXPECT_EQ(of(4 << 10)[1].most_time, 4);
  EXPECT_EQ(of(16 << 10)[0].most_time, std::nullopt);
  EXPECT_EQ(of(4 << 10, 2)[0].most_time, std::nullopt);
  EXPECT_EQ(of(1 << 20)[0].least_goodput, std::nullopt);
  EXPECT_EQ(of(4 << 20)[0].least_goodput, 0.8);
  EXPECT_EQ(of(4 << 20)[1].least_goodput, std::nullopt);
  EXPECT_EQ(of(64 << 20)[1].least_goodput, 0.55);
}

}  // namespace
}  // namespace psring
