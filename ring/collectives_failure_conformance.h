// What all collectives must do when something is wrong, in every algorithm. To be used as
// ring/collectives_conformance.h, for CollectivesFailureTest.
#ifndef PSRING_RING_COLLECTIVES_FAILURE_CONFORMANCE_H_
#define PSRING_RING_COLLECTIVES_FAILURE_CONFORMANCE_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/job_plan.h"
#include "common/mutex.h"
#include "common/ring_order.h"
#include "common/status_macros.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ring/collectives_test_util.h"
#include "ring/ring_test_util.h"
#include "ring/transport_collectives.h"

namespace psring {

inline constexpr int kRanks = 5;
inline constexpr int kOdd = 3;  // Not the root of any algorithm.

// Breaks after so many received bytes: calls `end` once, which gets the transport that it
// wraps, and returns its error from then on.
class FaultyTransport final : public Transport {
 public:
  using End = std::function<absl::Status(std::unique_ptr<Transport>& inner)>;

  FaultyTransport(std::unique_ptr<Transport> inner, size_t received_bytes, End end)
      : Transport(inner->rank(), PeersOf(*inner)),
        inner_(std::move(inner)),
        life_(received_bytes),
        end_(std::move(end)) {}

 private:
  static std::vector<Peer> PeersOf(const Transport& inner) {
    std::vector<Peer> peers;
    for (const int peer : inner.peers()) peers.push_back({peer, inner.name(peer)});
    return peers;
  }
  absl::StatusOr<size_t> DoTrySend(int peer, std::span<const std::byte> first,
                                   std::span<const std::byte> second) override {
    RETURN_IF_ERROR(ended_);
    return inner_->TrySend(peer, first, second);
  }
  absl::StatusOr<size_t> DoTryReceive(int peer, std::span<std::byte> first,
                                      std::span<std::byte> second) override {
    RETURN_IF_ERROR(ended_);
    if (life_ == 0) {
      ended_ = end_(inner_);
      return ended_;
    }
    const size_t of_first = std::min(first.size(), life_);
    const size_t of_second = std::min(second.size(), life_ - of_first);
    ASSIGN_OR_RETURN(
        const size_t received,
        inner_->TryReceive(peer, first.first(of_first), second.first(of_second)));
    life_ -= received;
    return received;
  }
  absl::StatusOr<Cause> DoWait(std::span<const Interest> interests,
                               absl::Duration timeout) override {
    RETURN_IF_ERROR(inner_->Wait(interests, timeout));
    return Cause{};
  }
  void DoWake() override { inner_->Wake(); }
  void DoSayWaiting(bool waiting) override { inner_->SayWaiting(waiting); }
  bool DoSaysWaiting(int peer) override { return inner_->SaysWaiting(peer); }
  void DoAbort(const Failure& reason) override {
    if (inner_ != nullptr) inner_->Abort(FromFailure(reason));
  }
  int64_t DoRetransmissions(int) const override { return 0; }

  std::unique_ptr<Transport> inner_;
  size_t life_;
  const End end_;
  absl::Status ended_;
};

class CollectivesFailureTest
    : public testing::TestWithParam<std::tuple<Algorithm, Over>> {
 protected:
  static CollectiveOptions Options(uint64_t job = 1) {
    return {.order = RingOrder(kRanks),
            .algorithm = std::get<0>(GetParam()),
            .job_fingerprint = job};
  }
  static std::vector<std::unique_ptr<Transport>> Transports() {
    return std::get<1>(GetParam()).make(kRanks);
  }

  // Every rank's collectives; kOdd's transport is broken.
  static std::vector<std::unique_ptr<TransportCollectives>> WithFault(
      size_t received_bytes, const FaultyTransport::End& end,
      const CollectiveOptions& options) {
    auto transports = Transports();
    transports[kOdd] = std::make_unique<FaultyTransport>(std::move(transports[kOdd]),
                                                         received_bytes, end);
    std::vector<std::unique_ptr<TransportCollectives>> collectives;
    for (int rank = 0; rank < kRanks; ++rank) {
      collectives.push_back(std::make_unique<TransportCollectives>(
          rank, std::move(transports[rank]), options));
    }
    return collectives;
  }

  // Until it fails, so that nobody finishes before it has to hear of the failure.
  static absl::Status SumAgainAndAgain(Collectives& collectives, int64_t count) {
    std::vector<float> values(count, 1.0f);
    for (int64_t step = 0;; ++step) {
      RETURN_IF_ERROR(collectives.AllReduce({.step = step}, SpanOf(values)));
    }
  }
};

// One rank is at another operation than the others. Every rank says what both are at.
TEST_P(CollectivesFailureTest, NeverAWrongSum) {
  using Operation = absl::Status (*)(Collectives&);
  const Operation usual = [](Collectives& own) {
    std::vector<float> values(100, 1.0f);
    return own.AllReduce(kTag, SpanOf(values));
  };
  struct Case {
    Operation odd_one;
    uint64_t job_of_odd_one;
    const char* theirs;
    const char* ours;
  };
  const Case cases[] = {
      {[](Collectives& own) {
         std::vector<float> values(100, 1.0f);
         return own.AllReduce({.step = 8, .bucket = 3}, SpanOf(values));
       },
       1, "bucket 3 (100 floats) at step 8", "bucket 3 (100 floats) at step 7"},
      {[](Collectives& own) {
         std::vector<float> values(100, 1.0f);
         return own.AllReduce({.step = 7, .bucket = 4}, SpanOf(values));
       },
       1, "sum of bucket 4", "sum of bucket 3"},
      {[](Collectives& own) {
         std::vector<float> values(101, 1.0f);
         return own.AllReduce(kTag, SpanOf(values));
       },
       1, "(101 floats)", "(100 floats)"},
      {[](Collectives& own) {
         std::vector<float> values(100, 1.0f);
         return own.ReduceScatter(kTag, SpanOf(values));
       },
       1, "reduce-scatter of bucket 3", "sum of bucket 3"},
      {[](Collectives& own) { return own.Barrier(); }, 1, "barrier", "sum of bucket 3"},
      {usual, 2, "of job 0000000000000002", "of job 0000000000000001"},
  };
  for (const Case& test : cases) {
    SCOPED_TRACE(test.theirs);
    auto transports = Transports();
    std::vector<std::unique_ptr<Collectives>> collectives;
    for (int rank = 0; rank < kRanks; ++rank) {
      collectives.push_back(std::make_unique<TransportCollectives>(
          rank, std::move(transports[rank]),
          Options(rank == kOdd ? test.job_of_odd_one : 1)));
    }
    const auto statuses = RunRanks(kRanks, [&](int rank) {
      return (rank == kOdd ? test.odd_one : usual)(*collectives[rank]);
    });
    EXPECT_THAT(
        statuses,
        testing::Each(StatusIs(
            absl::StatusCode::kFailedPrecondition,
            testing::AllOf(testing::HasSubstr(test.theirs), testing::HasSubstr(test.ours),
                           testing::HasSubstr(absl::StrCat("worker ", kOdd))))));
    // Once and for all.
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ(usual(*collectives[rank]), statuses[rank]);
    }
  }
}

TEST_P(CollectivesFailureTest, OneOperationTooManyIsAnErrorOnEveryRank) {
  const auto collectives = MakeCollectives(Transports(), Options());
  const auto statuses = RunRanks(kRanks, [&](int rank) -> absl::Status {
    std::vector<float> values(100, 1.0f);
    RETURN_IF_ERROR(collectives[rank]->AllReduce(kTag, SpanOf(values)));
    if (rank == kOdd) RETURN_IF_ERROR(collectives[rank]->AllReduce(kTag, SpanOf(values)));
    return collectives[rank]->Barrier();
  });
  EXPECT_THAT(statuses, testing::Each(StatusIs(
                            absl::StatusCode::kFailedPrecondition,
                            testing::AllOf(testing::HasSubstr("barrier, operation 1"),
                                           testing::HasSubstr("sum of bucket 3")))));
}

// The others have simply ended, well.
TEST_P(CollectivesFailureTest, OneOperationTooManyAfterTheOthersEndedIsAnError) {
  auto collectives = MakeCollectives(Transports(), Options());
  const auto statuses = RunRanks(kRanks, [&](int rank) -> absl::Status {
    std::vector<float> values(100, 1.0f);
    const absl::Status summed = collectives[rank]->AllReduce(kTag, SpanOf(values));
    if (!summed.ok() || rank == kOdd) {
      RETURN_IF_ERROR(summed);
      return collectives[rank]->AllReduce(kTag, SpanOf(values));
    }
    collectives[rank].reset();
    return summed;
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == kOdd) {
      EXPECT_THAT(statuses[rank],
                  StatusIs(absl::StatusCode::kUnavailable,
                           testing::AllOf(testing::HasSubstr(": worker "),
                                          testing::HasSubstr("closed the connection"))));
    } else {
      EXPECT_OK(statuses[rank]) << "rank " << rank;
    }
  }
}

// A job's fingerprint covers its ring order. Ranks that would meet each other find out;
// those that would not are stalled.
TEST_P(CollectivesFailureTest, TwoRingOrdersInOneJobAreAnErrorOnEveryRank) {
  JobSpec spec;
  const uint64_t usual = Fingerprint(spec);
  const RingOrder odd_order = Backwards(kRanks);
  for (int position = 0; position < kRanks; ++position) {
    spec.mutable_experiment()->add_ring_order(odd_order.RankAt(position));
  }
  auto transports = Transports();
  std::vector<std::unique_ptr<Collectives>> collectives;
  for (int rank = 0; rank < kRanks; ++rank) {
    CollectiveOptions options = Options(usual);
    options.stall_timeout = absl::Milliseconds(300);
    if (rank == kOdd) {
      options.order = odd_order;
      options.job_fingerprint = Fingerprint(spec);
    }
    collectives.push_back(std::make_unique<TransportCollectives>(
        rank, std::move(transports[rank]), options));
  }
  const auto statuses = RunRanks(kRanks, [&](int rank) {
    std::vector<float> values(1009, 1.0f);
    return collectives[rank]->AllReduce(kTag, SpanOf(values));
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    const absl::StatusCode code = statuses[rank].code();
    EXPECT_TRUE(code == absl::StatusCode::kFailedPrecondition ||
                code == absl::StatusCode::kUnavailable)
        << "rank " << rank << ": " << statuses[rank];
  }
}

// As the kernel does it for a killed process: the connections close, without a word.
TEST_P(CollectivesFailureTest, NobodyHangs) {
  const auto die = [](std::unique_ptr<Transport>& inner) {
    inner.reset();
    return absl::InternalError("died as planned");
  };
  // In the header; in the middle of the first sum; in a later one.
  for (const size_t received_bytes : {10, 2000, 100'000}) {
    SCOPED_TRACE(received_bytes);
    const auto collectives = WithFault(received_bytes, die, Options());
    std::vector<absl::Status> again(kRanks);
    const auto statuses = RunRanks(kRanks, [&](int rank) {
      const absl::Status status = SumAgainAndAgain(*collectives[rank], 1009);
      again[rank] = SumAgainAndAgain(*collectives[rank], 1009);
      return status;
    });
    EXPECT_EQ(again, statuses);
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == kOdd) {
        EXPECT_THAT(statuses[rank], StatusIs(absl::StatusCode::kInternal,
                                             testing::HasSubstr("as planned")));
        continue;
      }
      EXPECT_THAT(
          statuses[rank],
          StatusIs(
              absl::StatusCode::kUnavailable,
              testing::AllOf(testing::HasSubstr("sum of bucket 0 (1009 floats) at step "),
                             testing::HasSubstr(absl::StrCat(": worker ", kOdd)),
                             testing::HasSubstr("closed the connection"))));
      EXPECT_EQ(ExitCodeOf(statuses[rank]), ExitCode::kPeerLost);
    }
  }
}

// A rank that is there, and does nothing any more.
TEST_P(CollectivesFailureTest, AFrozenRankIsNamedByAllOthers) {
  Mutex mutex;
  CondVar changed;
  int failed = 0;  // Of the others.
  const auto freeze = [&](std::unique_ptr<Transport>&) {
    MutexLock lock(&mutex);
    while (failed < kRanks - 1) changed.Wait(&mutex);
    return absl::InternalError("thawed");
  };
  CollectiveOptions options = Options();
  options.stall_timeout = absl::Milliseconds(50);
  const auto collectives = WithFault(20'000, freeze, options);
  const auto statuses = RunRanks(kRanks, [&](int rank) {
    const absl::Status status = SumAgainAndAgain(*collectives[rank], 1009);
    MutexLock lock(&mutex);
    if (rank != kOdd) ++failed;
    changed.NotifyAll();
    return status;
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == kOdd) continue;
    EXPECT_THAT(
        statuses[rank],
        StatusIs(absl::StatusCode::kUnavailable,
                 testing::AllOf(testing::HasSubstr("no byte moved for 50ms; worker 3"),
                                testing::HasSubstr(" nothing"))))
        << "rank " << rank;
    EXPECT_EQ(ExitCodeOf(statuses[rank]), ExitCode::kPeerLost);
  }
}

TEST_P(CollectivesFailureTest, AnAbortEndsAnOperationEverywhere) {
  const auto collectives = MakeCollectives(Transports(), Options());
  const auto statuses = RunRanks(kRanks, [&](int rank) {
    if (rank == kOdd) {
      collectives[rank]->Abort(absl::CancelledError("enough"));
    }
    return SumAgainAndAgain(*collectives[rank], 1009);
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_THAT(statuses[rank],
                rank == kOdd
                    ? StatusIs(absl::StatusCode::kCancelled, testing::HasSubstr("enough"))
                    : StatusIs(absl::StatusCode::kUnavailable,
                               testing::HasSubstr("worker 3 gave up: enough")));
  }
}

}  // namespace psring

#endif  // PSRING_RING_COLLECTIVES_FAILURE_CONFORMANCE_H_
