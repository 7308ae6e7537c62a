#include "ring/in_process_transport.h"

#include "gtest/gtest.h"
#include "ring/transport_conformance.h"

namespace psring {
namespace {

std::vector<std::unique_ptr<Transport>> MakeSmallLinks(int ranks) {
  return MakeInProcessTransports(ranks, 13);
}
std::vector<std::unique_ptr<Transport>> MakeLargeLinks(int ranks) {
  return MakeInProcessTransports(ranks, 64 * 1024);
}

INSTANTIATE_TEST_SUITE_P(InProcess, TransportConformanceTest,
                         testing::Values(&MakeSmallLinks, &MakeLargeLinks));

}  // namespace
}  // namespace psring
