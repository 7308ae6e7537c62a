#include "experiments/bench/push_pull/options.h"

#include <functional>
#include <utility>

#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string TextOf(const PushPullJob& job) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(job, &text);
  return text;
}

TEST(OptionsTest, TheDefaultsAreSyncAndWholeFloats) {
  ASSERT_OK_AND_ASSIGN(const PushPullSettings settings, CheckPushPullOptions({}));
  EXPECT_THAT(settings.sizes, ElementsAre(4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20,
                                          4 << 20, 16 << 20, 64 << 20));
  EXPECT_EQ(TextOf(settings.job),
            "workers: 2 servers: 1 slot_bytes: 1048576 mode { sync { } } wire { fp32 { } "
            "} ");
}

TEST(OptionsTest, AJobIsWhatTheFlagsSay) {
  PushPullOptions options;
  options.workers = 3;
  options.servers = 2;
  options.mode = "bounded";
  options.bound = 4;
  options.wire = "bf16";
  options.placement = "by_tensor_size";
  options.inventory = "vgg16";
  options.slot_bytes = "64K";
  ASSERT_OK_AND_ASSIGN(PushPullSettings settings, CheckPushPullOptions(options));
  EXPECT_EQ(TextOf(settings.job),
            "workers: 3 servers: 2 slot_bytes: 65536 mode { bounded { bound: 4 } "
            "stale_updates { scale: ONE } placement: BY_TENSOR_SIZE } wire { bf16 { } } "
            "inventory: \"vgg16\" ");
  options.mode = "async";
  options.bound = std::nullopt;
  ASSERT_OK_AND_ASSIGN(settings, CheckPushPullOptions(options));
  EXPECT_TRUE(settings.job.mode().has_async());
}

TEST(OptionsTest, WhatMakesNoSenseIsRefusedWithWhatIsAllowed) {
  using Change = std::function<void(PushPullOptions & options)>;
  const std::pair<Change, const char*> cases[] = {
      {[](auto& o) { o.last_size = "1K"; }, "-e 1K is less than -b 4K"},
      {[](auto& o) { o.workers = 0; }, "--workers 0: 1 to 16"},
      {[](auto& o) { o.workers = 17; }, "--workers 17: 1 to 16"},
      {[](auto& o) { o.servers = 0; }, "--servers 0: 1 to 16"},
      {[](auto& o) { o.mode = "backup"; },
       "--mode backup: not one of sync, bounded, async"},
      {[](auto& o) { o.bound = 1; }, "--bound is of --mode bounded alone"},
      {[](auto& o) {
         o.mode = "bounded";
         o.bound = -1;
       },
       "--bound -1: 0 to 1073741824"},
      {[](auto& o) { o.placement = "random"; },
       "--placement random: not one of striped, by_tensor_round_robin, by_tensor_size, "
       "single"},
      {[](auto& o) { o.placement = "by_tensor_size"; },
       "--placement by_tensor_size needs --inventory"},
      {[](auto& o) { o.inventory = "vgg"; }, "--inventory vgg: not one of bert_large"},
      {[](auto& o) { o.wire = "int8"; }, "--wire int8: not one of fp32, bf16, fp16"},
      {[](auto& o) { o.slot_bytes = "6"; },
       "--slot-bytes 6: a multiple of 4 bytes up to 1G"},
      {[](auto& o) { o.slot_bytes = "2G"; }, "--slot-bytes 2G: a multiple of 4"},
      {[](auto& o) { o.slot_bytes = "0"; }, "--slot-bytes 0: a multiple of 4"},
      {[](auto& o) { o.slot_bytes = "much"; }, "\"much\" is not a size"},
      {[](auto& o) {
         o.contestants = {"psring", "zmq"};
       },
       "--contestant zmq: not one of psring, grpc, tcp"},
      {[](auto& o) {
         o.contestants = {"tcp", "tcp"};
       },
       "--contestant names tcp twice"},
      {[](auto& o) {
         o.last_size = "65M";
         o.factor = 2;
         o.first_size = "65M";
         o.slot_bytes = "4";
       },
       "--slot-bytes 4: 68,157,440 bytes are 17,039,360 slots; allowed: 4,194,304"},
  };
  for (const auto& [change, message] : cases) {
    PushPullOptions options;
    change(options);
    EXPECT_THAT(CheckPushPullOptions(options).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  }
}

TEST(OptionsTest, AsManySlotsAsAllowedAreAllowed) {
  PushPullOptions options;
  options.slot_bytes = "4";
  options.last_size = "16M";
  EXPECT_OK(CheckPushPullOptions(options).status());
}

TEST(OptionsTest, NoContestantIsNothingToMeasure) {
  PushPullOptions options;
  options.contestants = {};
  EXPECT_THAT(CheckPushPullOptions(options).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("--contestant: names nobody")));
}

}  // namespace
}  // namespace psring
