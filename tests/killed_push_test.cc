// A worker that dies at a known point of a push: before its first byte, with half of its
// bytes at the server, or with all of them there and the answer still on its way.
//
// Processes as one starts them by hand: psring with a coordinator, one server, two
// workers. The server says that it is reached at another loopback address than the one it
// listens at, and there stands a relay that lets so much of the push through.
#include <signal.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/end_to_end_test_util.h"
#include "tests/push_relay.h"
#include "tests/subprocess.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;

// All parameters in one bucket and, with one server, in one slot: a step has one push.
constexpr int64_t kPushBytes = 4 * (784 * 16 + 16 + 16 * 10 + 10);
// In the middle of training. Worker 1 pushes nothing else, so this is its fourth push.
constexpr int64_t kStep = 3;

constexpr char kRelayHost[] = "127.0.0.2";

class KilledPushTest : public EndToEndTest,
                       public testing::WithParamInterface<PushRelay::Cut> {
 protected:
  void TearDown() override {
    members_.clear();
    psring_.reset();
    relay_.reset();
    EndToEndTest::TearDown();
  }

  // Everyone, in such an order that worker 1 is the relay's victim.
  void StartAll() {
    psring_ =
        Start("run", Config(kEndless),
              {"--arm", "servers", "--external", "--listen", "127.0.0.1:0", "--job",
               "killed-push", "--set", "cluster.servers=1", "--set",
               "buckets.cap_bytes=1000000", "--set", "buckets.first_cap_bytes=1000000"});
    const auto command = psring_->WaitForRestOfLine("--coordinator ", kPatience);
    ASSERT_TRUE(command.has_value()) << psring_->err();
    coordinator_ = command->substr(0, command->find(' '));

    StartMember("server 0", "server/parameter_server",
                {"--bind", "127.0.0.1", "--advertise", kRelayHost});
    const auto port =
        members_.at("server 0")
            ->WaitForRestOfLine(absl::StrCat("serves at ", kRelayHost, ":"), kPatience);
    ASSERT_TRUE(port.has_value()) << members_.at("server 0")->err();
    ASSERT_OK_AND_ASSIGN(relay_, PushRelay::Start({.host = kRelayHost,
                                                   .port = std::stoi(*port),
                                                   .server = "127.0.0.1:" + *port,
                                                   .push_bytes = kPushBytes,
                                                   .push = kStep,
                                                   .cut = GetParam()}));
    StartMember("worker 1", "worker/main/worker", {});
    ASSERT_TRUE(relay_->AwaitVictim(kPatience)) << members_.at("worker 1")->err();
    StartMember("worker 0", "worker/main/worker", {});
  }

  void StartMember(const std::string& name, const std::string& program,
                   const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {program,
                                          "--coordinator",
                                          coordinator_,
                                          "--job",
                                          "killed-push",
                                          "--rank",
                                          name.substr(name.find(' ') + 1)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    members_[name] = std::make_unique<Subprocess>(arguments);
  }

  // Until the server has recorded so many updates of its slot, and the launcher stored
  // them.
  void AwaitUpdates(double updates) {
    const absl::Time deadline = absl::Now() + kPatience;
    for (double stored = 0; stored != updates; std::this_thread::yield()) {
      if (const auto cells = Query(kUpdates); !cells.empty()) stored = cells[0];
      ASSERT_LE(stored, updates);
      ASSERT_LT(absl::Now(), deadline) << "only " << stored << " updates are stored";
    }
  }

  // The promise, for everyone but the dead.
  void ExpectAllEndWithItsName(pid_t dead) {
    const absl::Time deadline = absl::Now() + kEndOfRun;
    const auto names_it =
        AllOf(HasSubstr(absl::StrCat("worker 1 (process ", dead, " on ")),
              HasSubstr("was lost: its connection ended without a goodbye"));
    EXPECT_THAT(psring_->Wait(kEndOfRun), Optional(5)) << psring_->err();
    EXPECT_THAT(psring_->err(), names_it);
    for (const char* name : {"server 0", "worker 0"}) {
      Subprocess& member = *members_.at(name);
      EXPECT_THAT(member.Wait(deadline - absl::Now()), Optional(5)) << name;
      EXPECT_THAT(member.err(), names_it) << name;
    }
    EXPECT_THAT(members_.at("worker 1")->Wait(kPatience), Optional(128 + SIGKILL));
    EXPECT_THAT(ChildrenOf(getpid()), IsEmpty());
  }

  // The file is whole and says what happened.
  void ExpectFailureRecorded() {
    EXPECT_THAT(Query("SELECT integrity_check = 'ok' FROM pragma_integrity_check"),
                ElementsAre(1));
    EXPECT_EQ(QueryOne("SELECT count(*) FROM runs WHERE outcome LIKE '%worker 1 (%lost%' "
                       "AND ended_unix_ns > started_unix_ns"),
              1);
    EXPECT_EQ(QueryOne("SELECT count(*) FROM processes WHERE role = 'worker' AND "
                       "rank = 1 AND outcome LIKE '%was lost%'"),
              1);
    EXPECT_GE(QueryOne("SELECT count(*) FROM events WHERE severity = 'error' AND "
                       "process = 'worker 1'"),
              1);
  }

  static constexpr char kUpdates[] = "SELECT count(DISTINCT version) FROM contributions";

  std::string coordinator_;
  std::unique_ptr<Subprocess> psring_;
  std::map<std::string, std::unique_ptr<Subprocess>> members_;  // By name: "worker 0".
  std::unique_ptr<PushRelay> relay_;
};

TEST_P(KilledPushTest, EndsEveryoneElseAndCountsWholePushesOnly) {
  ASSERT_NO_FATAL_FAILURE(StartAll());
  ASSERT_TRUE(relay_->AwaitCut(kPatience)) << members_.at("worker 1")->err();
  // With the whole push the round closes, although the worker never hears of it.
  const double updates = GetParam() == PushRelay::Cut::kAfter ? kStep + 1 : kStep;
  ASSERT_NO_FATAL_FAILURE(AwaitUpdates(updates));
  const pid_t victim = members_.at("worker 1")->pid();
  kill(victim, SIGKILL);
  ExpectAllEndWithItsName(victim);
  ExpectFailureRecorded();
  EXPECT_EQ(QueryOne(kUpdates), updates);
}

INSTANTIATE_TEST_SUITE_P(All, KilledPushTest,
                         testing::Values(PushRelay::Cut::kBefore, PushRelay::Cut::kWithin,
                                         PushRelay::Cut::kAfter),
                         [](const auto& info) {
                           switch (info.param) {
                             case PushRelay::Cut::kBefore:
                               return "BeforeThePush";
                             case PushRelay::Cut::kWithin:
                               return "WithinThePush";
                             case PushRelay::Cut::kAfter:
                               return "AfterThePush";
                           }
                           return "";
                         });

}  // namespace
}  // namespace psring
