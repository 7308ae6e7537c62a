#include "gtest/gtest.h"
#include "ring/collectives_conformance.h"
#include "ring/collectives_failure_conformance.h"
#include "ring/collectives_test_util.h"
#include "ring/grpc_test_util.h"

namespace psring {
namespace {

INSTANTIATE_TEST_SUITE_P(Grpc, CollectivesTest,
                         CollectivesOver({{"Grpc", &MakeGrpcTransports<1>}}),
                         CollectivesTestName);
INSTANTIATE_TEST_SUITE_P(Grpc, CollectivesFailureTest,
                         CollectivesOver({{"Grpc", &MakeGrpcTransports<1>}}),
                         CollectivesTestName);

}  // namespace
}  // namespace psring
