#include "ring/shared_memory_collectives.h"

#include <algorithm>
#include <atomic>
#include <functional>
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
#include "ring/algorithm.h"
#include "ring/operation_header.h"
#include "ring/ring_test_util.h"
#include "ring/shared_memory_layout.h"
#include "ring/shared_memory_test_util.h"
#include "ring/shared_memory_traffic.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

constexpr int64_t kMaxCount = 100'003;  // Many slots, and many blocks of a sum.

// Where ranks have their values.
enum class Place { kSegment, kElsewhere, kMixed };

// One rank.
struct Member {
  Member(std::shared_ptr<SharedMemorySegment> own, SharedMemoryOptions options)
      : segment(std::move(own)),
        buffer(segment->buffer()),
        collectives(segment, std::move(options)) {}

  // `terms` at so many floats from the start of its memory.
  DeviceSpan Place(bool in_segment, const std::vector<float>& terms, int64_t offset = 0) {
    elsewhere.assign(offset + terms.size(), 0.0f);
    float* const values = (in_segment ? buffer.span().data : elsewhere.data()) + offset;
    std::copy(terms.begin(), terms.end(), values);
    return {.data = values, .count = static_cast<int64_t>(terms.size())};
  }

  const std::shared_ptr<SharedMemorySegment> segment;
  const DeviceBuffer buffer;
  std::vector<float> elsewhere;
  SharedMemoryCollectives collectives;
};

std::vector<std::unique_ptr<Member>> MakeMembers(const SharedMemoryOptions& options) {
  const int ranks = options.order.ranks();
  const SharedMemoryJob job = UniqueJob(ranks, kMaxCount + 8);
  std::vector<std::unique_ptr<Member>> members(ranks);
  EXPECT_THAT(
      RunRanks(ranks,
               [&](int rank) -> absl::Status {
                 ASSIGN_OR_RETURN(
                     auto segment,
                     SharedMemorySegment::Open(ForRank(job, rank), absl::Minutes(5)));
                 members[rank] = std::make_unique<Member>(std::move(segment), options);
                 return absl::OkStatus();
               }),
      Each(IsOk()));
  return members;
}

std::vector<std::unique_ptr<Member>> MakeMembers(int ranks) {
  return MakeMembers({.order = RingOrder(ranks)});
}

std::vector<int64_t> Counts(int ranks) {
  return {0, 1, ranks - 1, ranks, ranks + 1, 97, 1009, 8192, kMaxCount};
}

class SharedMemoryCollectivesTest : public testing::TestWithParam<Place> {
 protected:
  static bool InSegment(int rank) {
    return GetParam() == Place::kSegment || (GetParam() == Place::kMixed && rank != 1);
  }
  static DeviceSpan PlaceTerms(Member& member, int64_t count, int64_t offset = 0) {
    const int rank = member.segment->rank();
    return member.Place(InSegment(rank), Terms(rank, count), offset);
  }
  // Where two spans differ first; their length if nowhere.
  static int64_t FirstDifference(std::span<const float> a, std::span<const float> b) {
    const auto bits_a = Bits(a), bits_b = Bits(b);
    return std::mismatch(bits_a.begin(), bits_a.end(), bits_b.begin(), bits_b.end())
               .first -
           bits_a.begin();
  }
};

TEST_P(SharedMemoryCollectivesTest, FoldOrder) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    for (const RingOrder& order : {RingOrder(ranks), Backwards(ranks)}) {
      const auto members = MakeMembers({.order = order});
      for (const int64_t count : Counts(ranks)) {
        std::vector<DeviceSpan> values(ranks);
        ASSERT_THAT(RunRanks(ranks,
                             [&](int rank) {
                               values[rank] = PlaceTerms(*members[rank], count);
                               return members[rank]->collectives.AllReduce(TagOf(count),
                                                                           values[rank]);
                             }),
                    Each(IsOk()));
        const std::vector<float> sums = Fold(order, count);
        for (int rank = 0; rank < ranks; ++rank) {
          ASSERT_EQ(FirstDifference(values[rank].host(), sums), count)
              << "first wrong element; rank " << rank << " of " << ranks;
        }
      }
    }
  }
}

// Nothing of an operation is left for the next one to trip over.
TEST_P(SharedMemoryCollectivesTest, ManyOperationsInARow) {
  constexpr int kRanks = 3;
  for (const SharedMemoryWait wait :
       {SharedMemoryWait::kSleep, SharedMemoryWait::kSpin}) {
    const auto members = MakeMembers({.order = RingOrder(kRanks), .wait = wait});
    EXPECT_THAT(
        RunRanks(kRanks,
                 [&](int rank) -> absl::Status {
                   Member& member = *members[rank];
                   for (int64_t step = 0; step < 200; ++step) {
                     const int64_t count = (step * step) % 613;
                     const DeviceSpan values = PlaceTerms(member, count);
                     RETURN_IF_ERROR(member.collectives.AllReduce(TagOf(step), values));
                     if (FirstDifference(values.host(), Fold(RingOrder(kRanks), count)) !=
                         count) {
                       return absl::DataLossError(absl::StrCat("step ", step));
                     }
                     if (step % 3 == 0) RETURN_IF_ERROR(member.collectives.Barrier());
                     if (step % 5 == 0)
                       RETURN_IF_ERROR(member.collectives.Broadcast(values));
                   }
                   return absl::OkStatus();
                 }),
        Each(IsOk()));
  }
}

TEST_P(SharedMemoryCollectivesTest, SlicesNeedNoAlignmentBeyondAFloat) {
  constexpr int kRanks = 3;
  constexpr int64_t kCount = 1009;
  const auto members = MakeMembers(kRanks);
  std::vector<DeviceSpan> values(kRanks);
  ASSERT_THAT(RunRanks(kRanks,
                       [&](int rank) -> absl::Status {
                         Member& member = *members[rank];
                         values[rank] =
                             PlaceTerms(member, kCount + 1, /*offset=*/2 * rank + 1);
                         values[rank].data[kCount] = 9.0f;
                         values[rank].data[-1] = 7.0f;
                         return member.collectives.AllReduce(
                             TagOf(0), values[rank].Slice({.begin = 0, .count = kCount}));
                       }),
              Each(IsOk()));
  for (const DeviceSpan& span : values) {
    EXPECT_EQ(FirstDifference(span.host().first(kCount), Fold(RingOrder(kRanks), kCount)),
              kCount);
    EXPECT_EQ(span.data[kCount], 9.0f);
    EXPECT_EQ(span.data[-1], 7.0f);
  }
}

TEST_P(SharedMemoryCollectivesTest, ReduceScatterAndAllGatherMakeASum) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    const RingOrder order = Backwards(ranks);
    const auto members = MakeMembers({.order = order});
    for (const int64_t count : Counts(ranks)) {
      const std::vector<float> sums = Fold(order, count);
      EXPECT_THAT(
          RunRanks(ranks,
                   [&](int rank) -> absl::Status {
                     SharedMemoryCollectives& collectives = members[rank]->collectives;
                     const DeviceSpan values = PlaceTerms(*members[rank], count);
                     RETURN_IF_ERROR(collectives.ReduceScatter(TagOf(1), values));
                     const Range own =
                         PartitionRange(count, ranks, order.PositionOf(rank));
                     if (FirstDifference(values.Slice(own).host(),
                                         std::span(sums).subspan(own.begin, own.count)) !=
                         own.count) {
                       return absl::DataLossError(absl::StrCat("scattered, rank ", rank));
                     }
                     // Nothing but its own chunk matters to what follows.
                     std::fill_n(values.data, own.begin, -1.0f);
                     std::fill(values.data + own.end(), values.data + count, -1.0f);
                     RETURN_IF_ERROR(collectives.AllGather(TagOf(1), values));
                     if (FirstDifference(values.host(), sums) != count) {
                       return absl::DataLossError(absl::StrCat("gathered, rank ", rank));
                     }
                     return absl::OkStatus();
                   }),
          Each(IsOk()))
          << ranks << " ranks, " << count << " floats";
    }
  }
}

TEST_P(SharedMemoryCollectivesTest, BroadcastGivesEveryRankTheFirstOnesValues) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    const auto members = MakeMembers(ranks);
    for (const int64_t count : Counts(ranks)) {
      std::vector<DeviceSpan> values(ranks);
      ASSERT_THAT(RunRanks(ranks,
                           [&](int rank) {
                             values[rank] = PlaceTerms(*members[rank], count);
                             return members[rank]->collectives.Broadcast(values[rank]);
                           }),
                  Each(IsOk()));
      for (int rank = 0; rank < ranks; ++rank) {
        ASSERT_EQ(FirstDifference(values[rank].host(), Terms(0, count)), count)
            << "first wrong element; rank " << rank << " of " << ranks;
      }
    }
  }
}

TEST_P(SharedMemoryCollectivesTest, NobodyPassesABarrierBeforeAllHaveCome) {
  constexpr int kRanks = 4;
  const auto members = MakeMembers(kRanks);
  std::atomic<int> come{0};
  EXPECT_THAT(RunRanks(kRanks,
                       [&](int rank) -> absl::Status {
                         for (int round = 1; round <= 50; ++round) {
                           ++come;
                           RETURN_IF_ERROR(members[rank]->collectives.Barrier());
                           if (come < round * kRanks) return absl::InternalError("early");
                           RETURN_IF_ERROR(members[rank]->collectives.Barrier());
                         }
                         return absl::OkStatus();
                       }),
              Each(IsOk()));
}

TEST_P(SharedMemoryCollectivesTest, PayloadIsTheFormula) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    const RingOrder order = Backwards(ranks);
    const auto members = MakeMembers({.order = order});
    std::vector<OperationBytes> steps(ranks), firsts(ranks);
    for (const int64_t count : Counts(ranks)) {
      ASSERT_THAT(RunRanks(ranks,
                           [&](int rank) -> absl::Status {
                             Collectives& own = members[rank]->collectives;
                             const DeviceSpan values = PlaceTerms(*members[rank], count);
                             RETURN_IF_ERROR(own.Broadcast(values));
                             RETURN_IF_ERROR(own.AllReduce(TagOf(0), values));
                             RETURN_IF_ERROR(own.ReduceScatter(TagOf(0), values));
                             RETURN_IF_ERROR(own.AllGather(TagOf(0), values));
                             return own.Barrier();
                           }),
                  Each(IsOk()));
      for (int rank = 0; rank < ranks; ++rank) {
        const auto add = [&](OperationBytes& to, OperationKind kind) {
          const OperationBytes bytes =
              SharedMemoryPayload(kind, count, order.PositionOf(rank), ranks);
          to = {.out = to.out + bytes.out, .in = to.in + bytes.in};
        };
        add(firsts[rank], OperationKind::kBroadcast);
        add(steps[rank], OperationKind::kAllReduce);
        add(steps[rank], OperationKind::kReduceScatter);
        add(steps[rank], OperationKind::kAllGather);
        const ExchangeTraffic traffic = members[rank]->collectives.traffic();
        EXPECT_EQ(traffic.payload_out, steps[rank].out);
        EXPECT_EQ(traffic.payload_in, steps[rank].in);
        EXPECT_EQ(traffic.initial_out, firsts[rank].out);
        EXPECT_EQ(traffic.initial_in, firsts[rank].in);
      }
    }
  }
}

TEST_P(SharedMemoryCollectivesTest, NeverAWrongSum) {
  using Operation = std::function<absl::Status(Member&)>;
  struct Case {
    Operation odd_one;
    const char* theirs;
  };
  const auto sum = [](int64_t step, int64_t count, int bucket) -> Operation {
    return [=](Member& member) {
      return member.collectives.AllReduce({.step = step, .bucket = bucket},
                                          PlaceTerms(member, count));
    };
  };
  const char* const ours = "sum of bucket 3 (100 floats) at step 7, operation 0";
  const Case cases[] = {
      {sum(8, 100, 3), "sum of bucket 3 (100 floats) at step 8"},
      {sum(7, 100, 4), "sum of bucket 4 (100 floats) at step 7"},
      {sum(7, 101, 3), "sum of bucket 3 (101 floats) at step 7"},
      {sum(7, 0, 3), "sum of bucket 3 (0 floats) at step 7"},
      {[](Member& member) {
         return member.collectives.ReduceScatter(TagOf(7), PlaceTerms(member, 100));
       },
       "reduce-scatter of bucket 3 (100 floats) at step 7"},
      {[](Member& member) {
         return member.collectives.AllGather(TagOf(7), PlaceTerms(member, 100));
       },
       "all-gather of bucket 3 (100 floats) at step 7"},
      {[](Member& member) {
         return member.collectives.Broadcast(PlaceTerms(member, 100));
       },
       "broadcast of 100 floats"},
      {[](Member& member) { return member.collectives.Barrier(); }, "barrier"},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.theirs);
    const auto members = MakeMembers(3);
    // Every rank sees both sides, in its own words or in those of who was faster.
    EXPECT_THAT(
        RunRanks(3,
                 [&](int rank) {
                   return (rank == 1 ? test.odd_one : sum(7, 100, 3))(*members[rank]);
                 }),
        Each(StatusIs(absl::StatusCode::kFailedPrecondition,
                      AllOf(HasSubstr(test.theirs), HasSubstr(ours)))));
  }
}

TEST_P(SharedMemoryCollectivesTest, OneOperationTooManyIsAnError) {
  auto members = MakeMembers(3);
  const auto statuses = RunRanks(3, [&](int rank) -> absl::Status {
    RETURN_IF_ERROR(
        members[rank]->collectives.AllReduce(TagOf(0), PlaceTerms(*members[rank], 100)));
    if (rank != 0) {
      members[rank].reset();
      return absl::OkStatus();
    }
    return members[rank]->collectives.AllReduce(TagOf(1),
                                                PlaceTerms(*members[rank], 100));
  });
  EXPECT_THAT(statuses[0],
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("sum of bucket 3 (100 floats) at step 1"),
                             HasSubstr("worker "), HasSubstr("has left"))));
  EXPECT_EQ(ExitCodeOf(statuses[0]), ExitCode::kPeerLost);
  EXPECT_OK(statuses[1]);
  EXPECT_OK(statuses[2]);
}

TEST_P(SharedMemoryCollectivesTest, ARankMayLeaveAsSoonAsItHasItsSums) {
  constexpr int kRanks = 4;
  for (const bool aborts : {false, true}) {
    auto members = MakeMembers(kRanks);
    std::vector<absl::Status> wrong(kRanks);
    EXPECT_THAT(
        RunRanks(kRanks,
                 [&](int rank) -> absl::Status {
                   Member& member = *members[rank];
                   const DeviceSpan values = PlaceTerms(member, kMaxCount);
                   RETURN_IF_ERROR(member.collectives.AllReduce(TagOf(0), values));
                   if (FirstDifference(values.host(),
                                       Fold(RingOrder(kRanks), kMaxCount)) != kMaxCount) {
                     return absl::DataLossError("a wrong sum");
                   }
                   if (aborts) member.collectives.Abort(absl::CancelledError("done"));
                   members[rank].reset();
                   return absl::OkStatus();
                 }),
        Each(IsOk()));
  }
}

TEST_P(SharedMemoryCollectivesTest, NobodyHangs) {
  const auto members = MakeMembers(3);
  std::vector<absl::Status> again(3);
  const auto statuses = RunRanks(3, [&](int rank) -> absl::Status {
    Member& member = *members[rank];
    const DeviceSpan values = PlaceTerms(member, 1000);
    RETURN_IF_ERROR(member.collectives.AllReduce(TagOf(0), values));
    if (rank == 1) {
      member.collectives.Abort(
          WithExitCode(absl::InternalError("broken as planned"), ExitCode::kUsage));
    }
    const absl::Status status = member.collectives.AllReduce(TagOf(1), values);
    again[rank] = member.collectives.AllReduce(TagOf(2), values);
    return status;
  });
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(statuses[rank],
                StatusIs(absl::StatusCode::kInternal, "broken as planned"));
    EXPECT_EQ(ExitCodeOf(statuses[rank]), ExitCode::kUsage);
    EXPECT_EQ(again[rank], statuses[rank]);
  }
}

TEST_P(SharedMemoryCollectivesTest, WhoIsToldToStopIsLostToTheOthers) {
  const auto members = MakeMembers(3);
  members[1]->collectives.Abort(absl::CancelledError("enough"));
  const auto statuses = RunRanks(3, [&](int rank) {
    return members[rank]->collectives.AllReduce(TagOf(1), PlaceTerms(*members[rank], 10));
  });
  EXPECT_THAT(statuses[1], StatusIs(absl::StatusCode::kCancelled, "enough"));
  for (const int rank : {0, 2}) {
    EXPECT_THAT(statuses[rank],
                StatusIs(absl::StatusCode::kUnavailable, "worker 1 gave up: enough"));
    EXPECT_EQ(ExitCodeOf(statuses[rank]), ExitCode::kPeerLost);
  }
}

TEST_P(SharedMemoryCollectivesTest, AStalledRankIsNamed) {
  const auto members =
      MakeMembers({.order = RingOrder(3), .stall_timeout = absl::Milliseconds(20)});
  // Rank 2 is there and silent.
  const auto statuses = RunRanks(2, [&](int rank) {
    return members[rank]->collectives.AllReduce(TagOf(5), PlaceTerms(*members[rank], 6));
  });
  // One of the two runs out of patience; the other may learn of it, or do so too.
  EXPECT_THAT(statuses, Each(StatusIs(absl::StatusCode::kUnavailable,
                                      AllOf(HasSubstr("worker 2 (process "),
                                            HasSubstr("did not come within 20ms")))));
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kPeerLost);
  }
}

TEST_P(SharedMemoryCollectivesTest, AnAbortEndsASumThatWaits) {
  const auto members = MakeMembers(2);
  const auto statuses = RunRanks(2, [&](int thread) -> absl::Status {
    SharedMemoryCollectives& collectives = members[0]->collectives;
    if (thread == 1) {
      std::string awaited;
      while (awaited.empty()) awaited = collectives.Awaited();
      EXPECT_THAT(awaited, testing::StartsWith("worker 1 (process "));
      collectives.Abort(absl::CancelledError("enough"));
      return absl::OkStatus();
    }
    return collectives.AllReduce(TagOf(0), PlaceTerms(*members[0], 100));
  });
  EXPECT_THAT(statuses[0], StatusIs(absl::StatusCode::kCancelled, HasSubstr("enough")));
  EXPECT_EQ(members[0]->collectives.Awaited(), "");
}

INSTANTIATE_TEST_SUITE_P(Places, SharedMemoryCollectivesTest,
                         testing::Values(Place::kSegment, Place::kElsewhere,
                                         Place::kMixed),
                         [](const testing::TestParamInfo<Place>& info) {
                           switch (info.param) {
                             case Place::kSegment:
                               return "Segment";
                             case Place::kElsewhere:
                               return "Elsewhere";
                             case Place::kMixed:
                               break;
                           }
                           return "Mixed";
                         });

TEST(SharedMemoryTrafficTest, SumsMoveAsMuchAsRoundARing) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    for (const int64_t count :
         {int64_t{0}, int64_t{7}, int64_t{1009}, int64_t{1} << 33}) {
      int64_t out = 0, in = 0;
      for (int position = 0; position < ranks; ++position) {
        const OperationBytes bytes =
            SharedMemoryPayload(OperationKind::kAllReduce, count, position, ranks);
        out += bytes.out;
        in += bytes.in;
      }
      EXPECT_EQ(out, 2 * (ranks - 1) * count * 4);
      EXPECT_EQ(in, out);
    }
  }
}

TEST(SharedMemoryLayoutTest, PartsDoNotOverlapHoweverLargeTheyAre) {
  for (const int64_t count : {int64_t{0}, int64_t{1}, (int64_t{1} << 33) + 1}) {
    const SharedMemoryLayout layout(5, count);
    EXPECT_GE(layout.member(0), int64_t{sizeof(SharedMemoryHead)});
    EXPECT_EQ(layout.member(0) % kCacheLineBytes, 0);
    EXPECT_GE(layout.slot(0, 0), layout.member(5));
    EXPECT_EQ(layout.slot(3, 1) - layout.slot(3, 0), kSlotCount * 4);
    EXPECT_EQ(layout.slot(4, 0) - layout.slot(3, 1), kSlotCount * 4);
    EXPECT_GE(layout.values(0), layout.slot(5, 0));
    EXPECT_EQ(layout.values(0) % kPageBytes, 0);
    EXPECT_EQ(layout.values_bytes() % kPageBytes, 0);
    EXPECT_GE(layout.values_bytes(), count * 4);
    EXPECT_EQ(layout.total_bytes(), layout.values(0) + 5 * layout.values_bytes());
  }
}

}  // namespace
}  // namespace psring
