#include "experiments/hosts/validity.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using Kind = Validity::Kind;

class ValidityTest : public testing::Test {
 protected:
  // Gradients moved for 8 of the 10 seconds that 40 intervals have watched. The server's
  // link was the limit, and the processors half idle.
  ValidityTest() {
    spec_.mutable_arm()->mutable_parameter_server();
    spec_.mutable_experiment()->mutable_cluster()->mutable_hosts()->set_link_mbit_s(8);
    usage_.links = {
        {.host = "worker 0", .out = true, .utilisation = 0.1, .backlog_bytes = 9},
        {.host = "server 0", .out = false, .utilisation = 0.95}};
    usage_.busiest = 1;
    usage_.moving_seconds = 8;
    usage_.intervals_in_use = 40;
    usage_.seconds_in_use = 10;
    usage_.idle_processors = 0.5;
    usage_.peak_utilisation = 1;
  }

  LinkUse& busiest() { return usage_.links[1]; }
  Validity Get() { return ValidityOf(spec_, usage_); }

  JobSpec spec_;
  LinkUsage usage_;
};

TEST_F(ValidityTest, ALinkAtItsLimitIsValid) {
  EXPECT_EQ(Get().kind, Kind::kValid);
  EXPECT_FALSE(Get().is_void());
  EXPECT_THAT(Get().cause, IsEmpty());
  EXPECT_THAT(Get().why, IsEmpty());
}

TEST_F(ValidityTest, BusyProcessorsCountWhereTheLinkHasRoom) {
  usage_.idle_processors = 0.02;
  EXPECT_EQ(Get().kind, Kind::kValid) << "the link is full";
  busiest().utilisation = 0.6;
  EXPECT_TRUE(Get().is_void());
  EXPECT_EQ(Get().cause, "processors");
  EXPECT_EQ(Get().why,
            "the processors were idle 2.0 % of the time, less than 10.0 %, and the "
            "busiest link, server 0 in, was used for 60.0 % of the time in which "
            "gradients were on their way");
}

// 20 % idle over 10 s are 2 s, which may all have been in the 2 s without gradients.
TEST_F(ValidityTest, IdleTimeOutsideTheTransferIsNotTakenForIdleTimeInIt) {
  busiest().utilisation = 0.6;
  usage_.idle_processors = 0.2;
  EXPECT_EQ(Get().kind, Kind::kCannotBeTold);
  EXPECT_EQ(Get().cause, "processors");
  EXPECT_THAT(Get().why, HasSubstr("0.0 % to 25.0 % while"));
  usage_.idle_processors = 0.29;  // 2.9 s: at least 0.9 of 8 s.
  EXPECT_EQ(Get().kind, Kind::kValid);
  // All of the idle time was in it, at most: still too little.
  usage_.idle_processors = 0.07;
  EXPECT_TRUE(Get().is_void());
}

TEST_F(ValidityTest, LoadBelowHalfOfTheLink) {
  busiest().utilisation = 0.49;
  EXPECT_TRUE(Get().is_void());
  EXPECT_EQ(Get().cause, "low load");
  EXPECT_THAT(Get().why, HasSubstr("was used for 49.0 %"));
  busiest().utilisation = 0.51;
  EXPECT_EQ(Get().kind, Kind::kValid);
}

// Small messages go through in bursts, faster than the link's speed says.
TEST_F(ValidityTest, ALinkThatWasNeverBusyWhateverItsUtilisation) {
  usage_.links[0].backlog_bytes = 0;
  EXPECT_EQ(Get().kind, Kind::kValid) << "it was in full use";
  usage_.peak_utilisation = 0.3;
  EXPECT_TRUE(Get().is_void());
  EXPECT_EQ(Get().cause, "link never busy");
  EXPECT_THAT(Get().why, HasSubstr("was used for at most 30.0 % between two"));
  usage_.links[0].backlog_bytes = 1;
  EXPECT_EQ(Get().kind, Kind::kValid) << "something has waited";
}

TEST_F(ValidityTest, WithoutEnoughReadingsOneCannotTell) {
  usage_.links[0].backlog_bytes = 0;
  usage_.peak_utilisation = 0.3;
  usage_.intervals_in_use = 6;  // 4.8 in the time that counts.
  EXPECT_EQ(Get().kind, Kind::kCannotBeTold);
  EXPECT_EQ(Get().cause, "too short");
  EXPECT_THAT(Get().why, HasSubstr("about 4.8"));
  // How long the bytes took needs no reading.
  busiest().utilisation = 0.2;
  EXPECT_EQ(Get().cause, "low load");
  usage_.intervals_in_use = 0;
  usage_.seconds_in_use = 0;
  EXPECT_EQ(Get().cause, "low load");
}

TEST_F(ValidityTest, WhatIsSlowOnPurposeIsNotVoid) {
  busiest().utilisation = 0.2;
  JobSpec delayed = spec_;
  delayed.mutable_experiment()->mutable_cluster()->mutable_hosts()->set_delay_ms(1);
  EXPECT_EQ(ValidityOf(delayed, usage_).kind, Kind::kCannotBeTold);
  EXPECT_EQ(ValidityOf(delayed, usage_).cause, "links with delay");
  JobSpec one = spec_;
  one.mutable_experiment()->mutable_cluster()->mutable_hosts()->add_links()->set_delay_ms(
      1);
  EXPECT_EQ(ValidityOf(one, usage_).cause, "links with delay");
  JobSpec slow = spec_;
  slow.mutable_experiment()->mutable_inject()->add_slow_worker();
  EXPECT_EQ(ValidityOf(slow, usage_).cause, "slow workers");
  JobSpec factor = spec_;
  factor.mutable_experiment()->mutable_compute()->mutable_emulated()->add_rank_factor();
  EXPECT_EQ(ValidityOf(factor, usage_).cause, "slow workers");
  // Processors are not.
  usage_.idle_processors = 0;
  EXPECT_TRUE(ValidityOf(delayed, usage_).is_void());
}

}  // namespace
}  // namespace psring
