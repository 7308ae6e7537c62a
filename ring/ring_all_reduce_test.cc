#include "ring/ring_all_reduce.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/partition.h"
#include "common/ring_order.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/ring_schedule.h"
#include "ring/ring_test_util.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// One rank's part of a ring.
struct Member {
  Member(int rank, int ranks, std::unique_ptr<Transport> own, RingOptions options)
      : transport(std::move(own)),
        all_reduce(rank, ranks, transport.get(), &counters, options) {}

  LinkCounters counters;
  std::unique_ptr<Transport> transport;
  RingAllReduce all_reduce;
};

std::vector<std::unique_ptr<Member>> MakeMembers(
    std::vector<std::unique_ptr<Transport>> transports, RingOptions options = {}) {
  const int ranks = static_cast<int>(transports.size());
  std::vector<std::unique_ptr<Member>> members;
  for (int rank = 0; rank < ranks; ++rank) {
    members.push_back(
        std::make_unique<Member>(rank, ranks, std::move(transports[rank]), options));
  }
  return members;
}

Bucket BucketOf(int64_t count, int index = 3) {
  return {.index = index, .range = {.begin = 1000, .count = count}};
}

DeviceSpan SpanOf(std::vector<float>& values) {
  return {.data = values.data(), .count = static_cast<int64_t>(values.size())};
}

// Tells rank and index, does not add up exactly, and is -0 on every rank at times.
float Term(int rank, int64_t index) {
  if (index % 17 == 3) return -0.0f;
  const float magnitude =
      static_cast<float>(rank + 1) * 1000.1f + static_cast<float>(index) * 0.37f;
  return (rank + index) % 2 == 0 ? magnitude : -magnitude / 3.0f;
}

std::vector<float> Terms(int rank, int64_t count) {
  std::vector<float> terms(count);
  for (int64_t i = 0; i < count; ++i) terms[i] = Term(rank, i);
  return terms;
}

std::vector<float> Fold(int ranks, int64_t count) {
  std::vector<float> sums(count);
  for (int chunk = 0; chunk < ranks; ++chunk) {
    const Range range = PartitionRange(count, ranks, chunk);
    for (int64_t i = range.begin; i < range.end(); ++i) {
      sums[i] = Term(RingFoldRank(chunk, 0, ranks), i);
      for (int position = 1; position < ranks; ++position) {
        sums[i] = sums[i] + Term(RingFoldRank(chunk, position, ranks), i);
      }
    }
  }
  return sums;
}

std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits(values.size());
  std::transform(values.begin(), values.end(), bits.begin(),
                 [](float value) { return std::bit_cast<uint32_t>(value); });
  return bits;
}

class RingAllReduceTest : public testing::TestWithParam<TransportKind> {
 protected:
  std::vector<int64_t> Counts(int ranks) const {
    std::vector<int64_t> counts = {0, 1, ranks - 1, ranks, ranks + 1, 97, 1009};
    if (GetParam() != TransportKind::kInProcessNarrow) counts.push_back(100'003);
    return counts;
  }
};

TEST_P(RingAllReduceTest, FoldOrder) {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    const auto members = MakeMembers(MakeRing(GetParam(), ranks));
    int64_t step = 0;
    for (const int64_t count : Counts(ranks)) {
      std::vector<std::vector<float>> values(ranks);
      for (int rank = 0; rank < ranks; ++rank) values[rank] = Terms(rank, count);
      const auto statuses = RunRanks(ranks, [&](int rank) {
        return members[rank]->all_reduce.Sum(step, BucketOf(count), SpanOf(values[rank]));
      });
      ASSERT_THAT(statuses, testing::Each(IsOk()));
      const std::vector<uint32_t> expected = Bits(Fold(ranks, count));
      for (int rank = 0; rank < ranks; ++rank) {
        const std::vector<uint32_t> bits = Bits(values[rank]);
        const auto wrong =
            std::mismatch(bits.begin(), bits.end(), expected.begin()).first -
            bits.begin();
        ASSERT_EQ(wrong, count)
            << "first wrong element; rank " << rank << " of " << ranks;
      }
      ++step;
    }
  }
}

TEST_P(RingAllReduceTest, ARankMayLeaveAsSoonAsItHasItsSums) {
  constexpr int kRanks = 4;
  const int64_t count = Counts(kRanks).back();
  for (const bool aborts : {false, true}) {
    auto members = MakeMembers(MakeRing(GetParam(), kRanks));
    std::vector<std::vector<float>> values(kRanks);
    const auto statuses = RunRanks(kRanks, [&](int rank) {
      values[rank] = Terms(rank, count);
      const absl::Status status =
          members[rank]->all_reduce.Sum(0, BucketOf(count), SpanOf(values[rank]));
      if (aborts) members[rank]->transport->Abort(absl::CancelledError("done"));
      members[rank].reset();
      return status;
    });
    ASSERT_THAT(statuses, testing::Each(IsOk()));
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_TRUE(Bits(values[rank]) == Bits(Fold(kRanks, count))) << "rank " << rank;
    }
  }
}

TEST_P(RingAllReduceTest, SlicesNeedNoAlignmentBeyondAFloat) {
  const auto members = MakeMembers(MakeRing(GetParam(), 3));
  const int64_t count = 1009;
  std::vector<std::vector<float>> padded(3);
  const auto statuses = RunRanks(3, [&](int rank) {
    padded[rank] = Terms(rank, count);
    padded[rank].insert(padded[rank].begin(), 7.0f);
    padded[rank].push_back(9.0f);
    return members[rank]->all_reduce.Sum(
        0, BucketOf(count), SpanOf(padded[rank]).Slice({.begin = 1, .count = count}));
  });
  ASSERT_THAT(statuses, testing::Each(IsOk()));
  std::vector<float> expected = Fold(3, count);
  expected.insert(expected.begin(), 7.0f);
  expected.push_back(9.0f);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(Bits(padded[rank]), Bits(expected));
}

TEST_P(RingAllReduceTest, BroadcastGivesEveryRankTheFirstOnesValues) {
  for (const int ranks : {1, 2, 3, 8}) {
    const auto members = MakeMembers(MakeRing(GetParam(), ranks));
    for (const int64_t count : Counts(ranks)) {
      std::vector<std::vector<float>> values(ranks);
      const auto statuses = RunRanks(ranks, [&](int rank) {
        values[rank] = Terms(rank, count);
        return members[rank]->all_reduce.Broadcast(SpanOf(values[rank]));
      });
      ASSERT_THAT(statuses, testing::Each(IsOk()));
      for (int rank = 0; rank < ranks; ++rank) {
        ASSERT_EQ(Bits(values[rank]), Bits(Terms(0, count)))
            << "rank " << rank << " of " << ranks;
      }
    }
  }
}

TEST_P(RingAllReduceTest, PayloadIsTheFormula) {
  for (const int ranks : {1, 2, 3, 4, 5, 8}) {
    const auto members = MakeMembers(MakeRing(GetParam(), ranks));
    std::vector<RingBytes> sums(ranks);
    std::vector<RingBytes> broadcasts(ranks);
    for (const int64_t count : Counts(ranks)) {
      const auto statuses = RunRanks(ranks, [&](int rank) -> absl::Status {
        std::vector<float> values = Terms(rank, count);
        RETURN_IF_ERROR(members[rank]->all_reduce.Broadcast(SpanOf(values)));
        return members[rank]->all_reduce.Sum(0, BucketOf(count), SpanOf(values));
      });
      ASSERT_THAT(statuses, testing::Each(IsOk()));
      for (int rank = 0; rank < ranks; ++rank) {
        const RingBytes sum = AllReduceBytes(count, rank, ranks);
        sums[rank] = {.out = sums[rank].out + sum.out, .in = sums[rank].in + sum.in};
        const RingBytes broadcast = BroadcastBytes(count, rank, ranks);
        broadcasts[rank] = {.out = broadcasts[rank].out + broadcast.out,
                            .in = broadcasts[rank].in + broadcast.in};
        const ExchangeTraffic traffic = members[rank]->counters.totals();
        EXPECT_EQ(traffic.payload_out, sums[rank].out);
        EXPECT_EQ(traffic.payload_in, sums[rank].in);
        EXPECT_EQ(traffic.initial_out, broadcasts[rank].out);
        EXPECT_EQ(traffic.initial_in, broadcasts[rank].in);
      }
    }
  }
}

// Rank 1 of three is at another operation than the others.
TEST_P(RingAllReduceTest, NeverAWrongSum) {
  using Operation = absl::Status (*)(RingAllReduce&);
  struct Case {
    Operation odd_one;
    uint64_t job_of_odd_one;
    const char* theirs;
    const char* ours;
  };
  const Operation usual = [](RingAllReduce& ring) {
    std::vector<float> values(100, 1.0f);
    return ring.Sum(7, BucketOf(100), SpanOf(values));
  };
  const Case cases[] = {
      {[](RingAllReduce& ring) {
         std::vector<float> values(100, 1.0f);
         return ring.Sum(8, BucketOf(100), SpanOf(values));
       },
       1, "bucket 3 (100 floats) at step 8", "bucket 3 (100 floats) at step 7"},
      {[](RingAllReduce& ring) {
         std::vector<float> values(100, 1.0f);
         return ring.Sum(7, BucketOf(100, /*index=*/4), SpanOf(values));
       },
       1, "sum of bucket 4", "sum of bucket 3"},
      {[](RingAllReduce& ring) {
         std::vector<float> values(101, 1.0f);
         return ring.Sum(7, BucketOf(101), SpanOf(values));
       },
       1, "(101 floats)", "(100 floats)"},
      {[](RingAllReduce& ring) {
         std::vector<float> values(100, 1.0f);
         return ring.Broadcast(SpanOf(values));
       },
       1, "broadcast of 100 floats", "sum of bucket 3"},
      {usual, 2, "of job 0000000000000002", "of job 0000000000000001"},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.theirs);
    auto transports = MakeRing(GetParam(), 3);
    std::vector<std::unique_ptr<Member>> members;
    for (int rank = 0; rank < 3; ++rank) {
      const uint64_t job = rank == 1 ? test.job_of_odd_one : 1;
      members.push_back(std::make_unique<Member>(rank, 3, std::move(transports[rank]),
                                                 RingOptions{.job_fingerprint = job}));
    }
    const auto statuses = RunRanks(3, [&](int rank) {
      return (rank == 1 ? test.odd_one : usual)(members[rank]->all_reduce);
    });
    EXPECT_THAT(statuses, testing::Each(testing::Not(IsOk())));
    // Who finds out first is a race; the rest learn it from a closed connection.
    EXPECT_THAT(statuses, testing::Contains(StatusIs(
                              absl::StatusCode::kFailedPrecondition,
                              AllOf(HasSubstr(test.theirs), HasSubstr(test.ours)))));
  }
}

// A transport that breaks after so many received bytes.
class DyingTransport final : public Transport {
 public:
  DyingTransport(std::unique_ptr<Transport> inner, size_t received_bytes)
      : Transport(inner->left(), inner->right(), {}),
        inner_(std::move(inner)),
        life_(received_bytes) {}

 private:
  absl::StatusOr<size_t> DoTrySend(std::span<const std::byte> bytes) override {
    return inner_->TrySend(bytes);
  }
  absl::StatusOr<size_t> DoTryReceive(std::span<std::byte> buffer) override {
    if (life_ == 0) return absl::InternalError("died as planned");
    ASSIGN_OR_RETURN(const size_t received,
                     inner_->TryReceive(buffer.first(std::min(buffer.size(), life_))));
    life_ -= received;
    return received;
  }
  absl::Status DoWait(SendInterest send, bool receive, absl::Duration timeout) override {
    return inner_->Wait(send, receive, timeout);
  }
  void DoAbort() override { inner_->Abort(absl::AbortedError("dead")); }

  const std::unique_ptr<Transport> inner_;
  size_t life_;
};

TEST_P(RingAllReduceTest, NobodyHangs) {
  constexpr int kDead = 1;
  const int64_t count = 1009;
  for (const int ranks : {2, 3, 5}) {
    // In the header; in the reduce-scatter; late, when ranks that need nothing more from
    // the dead one still complete the first sum.
    for (const size_t received_bytes : {10, 1000, 5000}) {
      SCOPED_TRACE(absl::StrCat(ranks, " ranks, ", received_bytes, " bytes"));
      auto transports = MakeRing(GetParam(), ranks);
      transports[kDead] =
          std::make_unique<DyingTransport>(std::move(transports[kDead]), received_bytes);
      const auto members = MakeMembers(std::move(transports));
      std::vector<absl::Status> again(ranks);
      const auto statuses = RunRanks(ranks, [&](int rank) {
        RingAllReduce& all_reduce = members[rank]->all_reduce;
        std::vector<float> values = Terms(rank, count);
        absl::Status status = all_reduce.Sum(12, BucketOf(count), SpanOf(values));
        if (status.ok()) status = all_reduce.Sum(13, BucketOf(count), SpanOf(values));
        again[rank] = all_reduce.Sum(14, BucketOf(count), SpanOf(values));
        return status;
      });
      std::vector<absl::Status> survivors;
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_EQ(again[rank], statuses[rank]);
        if (rank == kDead) {
          EXPECT_THAT(statuses[rank],
                      StatusIs(absl::StatusCode::kInternal, HasSubstr("as planned")));
        } else {
          EXPECT_THAT(
              statuses[rank],
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(StartsWith("sum of bucket 3 (1009 floats) at step 1"),
                             HasSubstr("neighbour worker "),
                             Not(HasSubstr(absl::StrCat("worker ", rank))))));
          EXPECT_EQ(ExitCodeOf(statuses[rank]), ExitCode::kPeerLost);
          survivors.push_back(statuses[rank]);
        }
      }
      // The others may see a survivor's connection closed first.
      EXPECT_THAT(survivors,
                  testing::Contains(StatusIs(absl::StatusCode::kUnavailable,
                                             HasSubstr("neighbour worker 1"))));
    }
  }
}

TEST_P(RingAllReduceTest, AStalledNeighbourIsNamed) {
  auto transports = MakeRing(GetParam(), 3);
  // Rank 2 is there and silent. Only rank 0 is impatient, so that its error is the first.
  Member rank0(0, 3, std::move(transports[0]), {.stall_timeout = absl::Milliseconds(20)});
  Member rank1(1, 3, std::move(transports[1]), {.stall_timeout = absl::Hours(1)});
  const auto statuses = RunRanks(2, [&](int rank) {
    std::vector<float> values = Terms(rank, 6);
    return (rank == 0 ? rank0 : rank1).all_reduce.Sum(5, BucketOf(6), SpanOf(values));
  });
  EXPECT_THAT(
      statuses[0],
      StatusIs(absl::StatusCode::kUnavailable,
               AllOf(HasSubstr("step 5, hop 0 of 4, received 0 of 32"),
                     HasSubstr("no byte moved for 20ms"),
                     HasSubstr("left neighbour worker 2"), HasSubstr("sent nothing"))));
  EXPECT_EQ(ExitCodeOf(statuses[0]), ExitCode::kPeerLost);
  EXPECT_THAT(statuses[1], StatusIs(absl::StatusCode::kUnavailable,
                                    HasSubstr("left neighbour worker 0")));
}

TEST_P(RingAllReduceTest, AnAbortEndsASum) {
  const auto transports = MakeRing(GetParam(), 2);
  LinkCounters counters;
  RingAllReduce all_reduce(0, 2, transports[0].get(), &counters, {});
  const auto statuses = RunRanks(2, [&](int thread) {
    if (thread == 1) {
      transports[0]->Abort(absl::CancelledError("enough"));
      return absl::OkStatus();
    }
    std::vector<float> values = Terms(0, 100);
    return all_reduce.Sum(0, BucketOf(100), SpanOf(values));
  });
  EXPECT_THAT(statuses[0], StatusIs(absl::StatusCode::kCancelled, HasSubstr("enough")));
}

INSTANTIATE_TEST_SUITE_P(Transports, RingAllReduceTest,
                         testing::Values(TransportKind::kInProcess,
                                         TransportKind::kInProcessNarrow,
                                         TransportKind::kTcp));

}  // namespace
}  // namespace psring
