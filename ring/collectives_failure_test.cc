#include "gtest/gtest.h"
#include "ring/collectives_failure_conformance.h"
#include "ring/collectives_test_util.h"
#include "ring/ring_test_util.h"

namespace psring {
namespace {

template <TransportKind kKind>
std::vector<std::unique_ptr<Transport>> Make(int ranks) {
  return MakeTransports(kKind, ranks);
}

INSTANTIATE_TEST_SUITE_P(All, CollectivesFailureTest,
                         CollectivesOver({{"InProcess", &Make<TransportKind::kInProcess>},
                                          {"Tcp", &Make<TransportKind::kTcp>},
                                          {"TcpDelayed",
                                           &Make<TransportKind::kTcpDelayed>}}),
                         CollectivesTestName);

}  // namespace
}  // namespace psring
