#include "gtest/gtest.h"
#include "ring/collectives_conformance.h"
#include "ring/collectives_test_util.h"
#include "ring/ring_test_util.h"

namespace psring {
namespace {

template <TransportKind kKind>
std::vector<std::unique_ptr<Transport>> Make(int ranks) {
  return MakeTransports(kKind, ranks);
}

INSTANTIATE_TEST_SUITE_P(
    All, CollectivesTest,
    CollectivesOver({{"InProcess", &Make<TransportKind::kInProcess>},
                     {"InProcessNarrow", &Make<TransportKind::kInProcessNarrow>, true},
                     {"Tcp", &Make<TransportKind::kTcp>},
                     {"TcpLanes", &Make<TransportKind::kTcpLanes>},
                     {"TcpSpin", &Make<TransportKind::kTcpSpin>},
                     {"TcpDelayed", &Make<TransportKind::kTcpDelayed>}}),
    CollectivesTestName);

}  // namespace
}  // namespace psring
