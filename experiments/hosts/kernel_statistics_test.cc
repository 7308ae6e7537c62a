#include "experiments/hosts/kernel_statistics.h"

#include <string>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::FieldsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

TEST(KernelStatisticsTest, RootQueues) {
  const char text[] =
      R"([{"kind":"noqueue","handle":"0:","dev":"lo","root":true,"refcnt":2,"options":{},
           "bytes":0,"packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,
           "qlen":0},
          {"kind":"tbf","handle":"8001:","dev":"data-0","root":true,"refcnt":3,
           "options":{"rate":12500000,"burst":32762,"lat":18350},"bytes":10456176,
           "packets":6912,"drops":3,"overlimits":13055,"requeues":0,"backlog":1514,
           "qlen":1},
          {"kind":"fq_codel","handle":"1:","dev":"data-0","parent":"8001:1","bytes":5,
           "packets":5,"drops":5,"backlog":5}])";
  ASSERT_OK_AND_ASSIGN(const auto queues, ParseQueues(text));
  EXPECT_THAT(queues,
              UnorderedElementsAre(Pair("lo", FieldsAre(0, 0, 0, 0)),
                                   Pair("data-0", FieldsAre(10456176, 6912, 3, 1514))));
}

TEST(KernelStatisticsTest, QueuesThatAreNotUnderstood) {
  for (const char* text : {"", "{}", "[1]", R"([{"dev":"a","root":true,"bytes":"5"}])"}) {
    EXPECT_THAT(ParseQueues(text), StatusIs(absl::StatusCode::kInternal,
                                            HasSubstr("cannot read the output of tc")))
        << text;
  }
}

TEST(KernelStatisticsTest, Interfaces) {
  const char text[] =
      "Inter-|   Receive                          |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes packets\n"
      "    lo:       0       0    0    0    0     0          0         0        0       0"
      "    0    0    0     0       0          0\n"
      "data-0:10425684    6450    0    0    0     0          0         0   199766    3027"
      "    0    0    0     0       0          0\n";
  ASSERT_OK_AND_ASSIGN(const auto interfaces, ParseInterfaces(text));
  EXPECT_THAT(interfaces, UnorderedElementsAre(
                              Pair("lo", FieldsAre(0, 0, 0, 0)),
                              Pair("data-0", FieldsAre(10425684, 6450, 199766, 3027))));
  EXPECT_THAT(ParseInterfaces("lo: 1 2 3\n"),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("/proc/net/dev")));
}

TEST(KernelStatisticsTest, ResentSegments) {
  const char text[] =
      "Ip: Forwarding DefaultTTL\nIp: 1 64\n"
      "Tcp: RtoAlgorithm MaxConn OutSegs RetransSegs InErrs\nTcp: 1 -1 6911 12 0\n"
      "Udp: InDatagrams\nUdp: 0\n";
  ASSERT_OK_AND_ASSIGN(const int64_t resent, ParseResentSegments(text));
  EXPECT_EQ(resent, 12);
  EXPECT_THAT(ParseResentSegments("Tcp: a b\nTcp: 1\n"),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("/proc/net/snmp")));
}

TEST(KernelStatisticsTest, WaitingForInputIsIdleAndGuestsAreNotCountedTwice) {
  ASSERT_OK_AND_ASSIGN(
      const ProcessorTimes times,
      ParseProcessorTimes("cpu  1 2 4 8 16 32 64 128 256 512\ncpu0 1 2 3\n"));
  EXPECT_EQ(times.idle, absl::Milliseconds(240));
  EXPECT_EQ(times.total, absl::Milliseconds(2550));
  EXPECT_THAT(ParseProcessorTimes("cpu0 1 2"),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("/proc/stat")));
}

}  // namespace
}  // namespace psring
