#include "ring/tcp_transport.h"

#include "gtest/gtest.h"
#include "ring/ring_test_util.h"
#include "ring/transport_conformance.h"

namespace psring {
namespace {

std::vector<std::unique_ptr<Transport>> MakeTcp(int ranks) {
  return MakeRing(TransportKind::kTcp, ranks);
}

INSTANTIATE_TEST_SUITE_P(Tcp, TransportConformanceTest, testing::Values(&MakeTcp));

}  // namespace
}  // namespace psring
