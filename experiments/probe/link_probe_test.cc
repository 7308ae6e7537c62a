// Real links and sockets, each test in a process with a private network.
#include "experiments/probe/link_probe.h"

#include <sys/wait.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "experiments/hosts/launcher_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr ProbeTimes kShort = {.pings = absl::Milliseconds(10),
                               .warm_up = absl::Milliseconds(50),
                               .measured = absl::Milliseconds(200)};
constexpr int64_t kBurstBytes = 50'000;

LinkToProbe Link(int64_t send_bit_s, int64_t receive_bit_s) {
  return {.kind = {.send_bit_s = send_bit_s,
                   .receive_bit_s = receive_bit_s,
                   .queue_bytes = 400'000,
                   .burst_bytes = kBurstBytes,
                   .congestion_control = "reno"},
          .host = "worker 0"};
}

absl::Status Check(bool holds, const std::string& what) {
  return holds ? absl::OkStatus() : absl::FailedPreconditionError(what);
}

// Far below what a link without a limit, or the other direction, would give. On a busy
// machine what came before the measurement may be counted in it.
absl::Status CheckRate(double bytes_s, int64_t bit_s, const char* direction) {
  const double most = 1.5 * static_cast<double>(bit_s) / 8;
  return Check(bytes_s > 0 && bytes_s <= most,
               absl::StrCat(direction, ": ", bytes_s, " bytes/s of at most ", most));
}

absl::Status CheckProbe(const LinkToProbe& link) {
  ASSIGN_OR_RETURN(const ProbedLink probed, ProbeLink(link, kShort));
  RETURN_IF_ERROR(CheckRate(probed.out_bytes_s, link.kind.send_bit_s, "out"));
  RETURN_IF_ERROR(CheckRate(probed.in_bytes_s, link.kind.receive_bit_s, "in"));
  RETURN_IF_ERROR(Check(probed.latency > absl::ZeroDuration(), "no latency"));
  RETURN_IF_ERROR(Check(probed.idle >= 0 && probed.idle <= 1, "no share is idle"));
  return Check(probed.link.kind == link.kind && probed.link.host == link.host,
               "it is of another link");
}

// Open descriptors, threads, and interfaces but their counters.
std::string Holdings() {
  const auto entries = [](const char* path) {
    return std::distance(fs::directory_iterator(path), fs::directory_iterator());
  };
  std::string text = absl::StrCat(entries("/proc/self/fd"), " descriptors, ",
                                  entries("/proc/self/task"), " threads");
  std::ifstream file("/proc/self/net/dev");
  std::string line;
  while (std::getline(file, line)) {
    if (absl::StrContains(line, ":")) {
      absl::StrAppend(&text, ",", line.substr(0, line.find(':')));
    }
  }
  return text;
}

class LinkProbeTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string trouble = RunLauncher([] {
      return ProbeLink(Link(8'000'000, 8'000'000), {.pings = absl::ZeroDuration(),
                                                    .warm_up = absl::ZeroDuration(),
                                                    .measured = absl::Milliseconds(1)})
          .status();
    });
    if (absl::StartsWith(trouble, kSkip)) GTEST_SKIP() << trouble;
    ASSERT_EQ(trouble, "ok");
  }
};

TEST_F(LinkProbeTest, ALinkGivesNoMoreThanItsSpeedInEachDirection) {
  EXPECT_EQ(RunLauncher([] { return CheckProbe(Link(100'000'000, 40'000'000)); }), "ok");
  EXPECT_EQ(RunLauncher([] { return CheckProbe(Link(40'000'000, 100'000'000)); }), "ok");
}

TEST_F(LinkProbeTest, TheLinkBetweenRacks) {
  EXPECT_EQ(RunLauncher([] {
              LinkToProbe link = Link(60'000'000, 60'000'000);
              link.kind.between_racks = true;
              link.host = "rack 0";
              return CheckProbe(link);
            }),
            "ok");
}

TEST_F(LinkProbeTest, TheLoopbackInterface) {
  EXPECT_EQ(RunLauncher([]() -> absl::Status {
              ASSIGN_OR_RETURN(const ProbedLink probed,
                               ProbeLink({.kind = {}, .host = "loopback"}, kShort));
              return Check(probed.out_bytes_s > 0 && probed.in_bytes_s > 0 &&
                               probed.latency > absl::ZeroDuration(),
                           "it carries nothing");
            }),
            "ok");
}

TEST_F(LinkProbeTest, NothingIsLeftBehind) {
  EXPECT_EQ(
      RunLauncher([]() -> absl::Status {
        // The first one: a sanitizer starts a thread of its own with the first thread.
        RETURN_IF_ERROR(CheckProbe(Link(50'000'000, 50'000'000)));
        const std::string before = Holdings();
        std::ostringstream progress;
        ASSIGN_OR_RETURN(const auto probed, ProbeLinks({Link(50'000'000, 50'000'000),
                                                        Link(60'000'000, 50'000'000)},
                                                       &progress));
        RETURN_IF_ERROR(Check(probed.size() == 2, "not both"));
        RETURN_IF_ERROR(Check(absl::StrContains(progress.str(), "probed: worker 0: "),
                              progress.str()));
        const std::string after = Holdings();
        RETURN_IF_ERROR(Check(after == before, absl::StrCat(before, "; then ", after)));
        return Check(waitpid(-1, nullptr, WNOHANG) < 0 && errno == ECHILD,
                     "there is a child");
      }),
      "ok");
}

TEST_F(LinkProbeTest, AFailureNamesTheLink) {
  EXPECT_THAT(RunLauncher([] {
                LinkToProbe link = Link(8'000'000, 8'000'000);
                link.kind.congestion_control = "nosuch";
                return ProbeLink(link).status();
              }),
              AllOf(HasSubstr(kSkip), HasSubstr("cannot probe the link of worker 0")));
}

}  // namespace
}  // namespace psring
