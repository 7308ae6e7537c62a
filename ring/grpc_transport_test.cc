#include "ring/grpc_transport.h"

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "gtest/gtest.h"
#include "ring/ring_test_util.h"
#include "ring/transport_conformance.h"

namespace psring {
namespace {

using testing::HasSubstr;

template <TransportKind kKind>
std::vector<std::unique_ptr<Transport>> Make(int ranks) {
  return MakeTransports(kKind, ranks);
}

INSTANTIATE_TEST_SUITE_P(Grpc, TransportConformanceTest,
                         testing::Values(&Make<TransportKind::kGrpc>,
                                         &Make<TransportKind::kGrpcLanes>));

std::unique_ptr<GrpcListener> ListenOnLoopback() {
  auto listener = GrpcListener::Listen("127.0.0.1", 0);
  EXPECT_OK(listener);
  return *std::move(listener);
}

RingMember Member(int rank, int ranks) {
  return {.job = "test", .rank = rank, .ranks = ranks, .layout_fingerprint = 1};
}

TEST(GrpcTransportTest, PeersWithOtherLayoutsFailAtOnceOnBothSides) {
  std::unique_ptr<GrpcListener> listeners[] = {ListenOnLoopback(), ListenOnLoopback()};
  const std::string address = absl::StrCat("127.0.0.1:", listeners[1]->port());
  const auto statuses = RunRanks(2, [&](int rank) {
    RingMember self = Member(rank, 2);
    self.layout_fingerprint = static_cast<uint64_t>(rank);
    return ConnectPeersOverGrpc(std::move(listeners[rank]), self,
                                {{.rank = 1 - rank, .listens_at = address}}, false,
                                absl::Seconds(60))
        .status();
  });
  EXPECT_THAT(statuses, testing::Each(StatusIs(absl::StatusCode::kFailedPrecondition,
                                               HasSubstr("tensors or buckets differ"))));
}

TEST(GrpcTransportTest, TheDeadlineNamesWhoNeverCame) {
  auto listener = ListenOnLoopback();
  const int port = listener->port();
  // A listener that does not answer.
  const auto mute = ListenOnLoopback();
  const std::string address = absl::StrCat("127.0.0.1:", mute->port());
  const auto connected = ConnectPeersOverGrpc(
      std::move(listener), Member(1, 3),
      {{.rank = 0}, {.rank = 2, .listens_at = address}}, false, absl::Milliseconds(50));
  EXPECT_THAT(
      connected,
      StatusIs(
          absl::StatusCode::kDeadlineExceeded,
          testing::AllOf(HasSubstr("job 'test', worker 1 of 3"),
                         HasSubstr(absl::StrCat("worker 0 never called port ", port)),
                         HasSubstr(absl::StrCat("worker 2 (", address, ") could not")))));
  EXPECT_EQ(ExitCodeOf(connected.status()), ExitCode::kRendezvousTimeout);
}

TEST(GrpcTransportTest, ATakenPortIsAnError) {
  const auto taken = ListenOnLoopback();
  EXPECT_THAT(GrpcListener::Listen("127.0.0.1", taken->port()),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr(absl::StrCat("127.0.0.1:", taken->port()))));
}

}  // namespace
}  // namespace psring
