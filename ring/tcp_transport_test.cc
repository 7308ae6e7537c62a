#include "ring/tcp_transport.h"

#include "gtest/gtest.h"
#include "ring/ring_test_util.h"
#include "ring/transport_conformance.h"

namespace psring {
namespace {

template <TransportKind kKind>
std::vector<std::unique_ptr<Transport>> Make(int ranks) {
  return MakeTransports(kKind, ranks);
}

INSTANTIATE_TEST_SUITE_P(Tcp, TransportConformanceTest,
                         testing::Values(&Make<TransportKind::kTcp>,
                                         &Make<TransportKind::kTcpLanes>,
                                         &Make<TransportKind::kTcpSpin>));

}  // namespace
}  // namespace psring
