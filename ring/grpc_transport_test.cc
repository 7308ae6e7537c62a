#include "ring/grpc_transport.h"

#include <chrono>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "grpcpp/alarm.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "ring/grpc_test_util.h"
#include "ring/ring_test_util.h"
#include "ring/tcp_handshake.h"
#include "ring/transport_conformance.h"

namespace psring {
namespace {

using testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(Grpc, TransportConformanceTest,
                         testing::Values(&MakeGrpcTransports<1>, &MakeGrpcTransports<3>));

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

// Cuts the call for control messages off, and then refuses the others.
class CutThenRefuse final : public grpc::CallbackGenericService {
  class Reactor final : public grpc::ServerGenericBidiReactor {
   public:
    explicit Reactor(bool cut) {
      if (cut) {
        Finish({grpc::StatusCode::UNAVAILABLE, "cut off"});
        return;
      }
      later_.Set(std::chrono::system_clock::now() + std::chrono::milliseconds(50),
                 [this](bool) {
                   Finish({grpc::StatusCode::FAILED_PRECONDITION, "its tensors differ"});
                 });
    }
    void OnDone() override { delete this; }

   private:
    grpc::Alarm later_;
  };

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    Handshake handshake{};
    for (const auto& [key, value] : context->client_metadata()) {
      if (value.size() == sizeof(handshake)) {
        std::memcpy(&handshake, value.data(), sizeof(handshake));
      }
    }
    return new Reactor(handshake.connection == kControlConnection);
  }
};

TEST(GrpcTransportTest, ARefusalCountsMoreThanTheCutThatCameBeforeIt) {
  CutThenRefuse service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(&service);
  const std::unique_ptr<grpc::Server> peer = builder.BuildAndStart();
  const auto connected =
      ConnectPeersOverGrpc(ListenOnLoopback(), Member(0, 2),
                           {{.rank = 1, .listens_at = absl::StrCat("127.0.0.1:", port)}},
                           false, absl::Seconds(60));
  EXPECT_THAT(connected, StatusIs(absl::StatusCode::kFailedPrecondition,
                                  HasSubstr("its tensors differ")));
  peer->Shutdown();
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
