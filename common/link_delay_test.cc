#include "common/link_delay.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

JobSpec SpecOf(const std::string& hosts) {
  JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("experiment { cluster { hosts { ", hosts, "} } }"), &spec));
  return spec;
}

TEST(LinkDelayTest, BothLinksDelayEachWay) {
  const JobSpec spec = SpecOf(
      "delay_ms: 5 links { host: 'worker 1' delay_ms: 20 } "
      "links { host: 'server 0' delay_ms: 0 } links { host: 'worker 3' send_mbit_s: 1 }");
  EXPECT_EQ(DelayBetweenWorkers(spec, 0, 2), absl::Milliseconds(10));
  EXPECT_EQ(DelayBetweenWorkers(spec, 0, 1), absl::Milliseconds(25));
  EXPECT_EQ(DelayBetweenWorkers(spec, 1, 0), absl::Milliseconds(25));
  EXPECT_EQ(DelayBetweenWorkers(spec, 3, 2), absl::Milliseconds(10));
  EXPECT_EQ(DelayToServer(spec, 0, 0), absl::Milliseconds(5));
  EXPECT_EQ(DelayToServer(spec, 1, 0), absl::Milliseconds(20));
  EXPECT_EQ(DelayToServer(spec, 1, 1), absl::Milliseconds(25));
}

TEST(LinkDelayTest, AColocatedServerHasTheLinkOfItsWorker) {
  const JobSpec spec = SpecOf(
      "delay_ms: 5 links { host: 'worker 1' delay_ms: 20 } colocated_servers: true");
  EXPECT_EQ(DelayToServer(spec, 0, 0), absl::ZeroDuration());
  EXPECT_EQ(DelayToServer(spec, 1, 1), absl::ZeroDuration());
  EXPECT_EQ(DelayToServer(spec, 0, 1), absl::Milliseconds(25));
  EXPECT_EQ(DelayToServer(spec, 2, 0), absl::Milliseconds(10));
}

TEST(LinkDelayTest, AnArmsOwnHostsReplaceTheExperiments) {
  JobSpec spec = SpecOf("delay_ms: 5");
  spec.mutable_arm()->mutable_cluster()->set_workers(3);
  EXPECT_EQ(DelayBetweenWorkers(spec, 0, 1), absl::Milliseconds(10));
  spec.mutable_arm()->mutable_cluster()->mutable_hosts()->set_delay_ms(0.25);
  EXPECT_EQ(DelayBetweenWorkers(spec, 0, 1), absl::Microseconds(500));
}

TEST(LinkDelayTest, WithoutHostsOrDelayThereIsNone) {
  EXPECT_EQ(DelayBetweenWorkers(JobSpec(), 0, 1), absl::ZeroDuration());
  EXPECT_EQ(DelayToServer(SpecOf("link_mbit_s: 100"), 0, 0), absl::ZeroDuration());
}

TEST(LinkDelayTest, BytesAreThoseOfTheFastestLink) {
  EXPECT_EQ(BytesWithin(SpecOf("link_mbit_s: 200"), absl::Milliseconds(10)), 250'000);
  EXPECT_EQ(BytesWithin(SpecOf("link_mbit_s: 8 links { host: 'worker 0' send_mbit_s: 16 "
                               "receive_mbit_s: 4 }"),
                        absl::Seconds(1)),
            2'000'000);
}

}  // namespace
}  // namespace psring
