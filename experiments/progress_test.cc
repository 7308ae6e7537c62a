#include "experiments/progress.h"

#include <sstream>
#include <string>

#include "gtest/gtest.h"

namespace psring {
namespace {

constexpr char kEraseLine[] = "\r\x1b[K";

int NoTerminal() { return 0; }
int WideTerminal() { return 200; }
int NarrowTerminal() { return 20; }

// Half way after 30 s.
constexpr ArmProgress kHalf = {.steps_done = 1500,
                               .samples = 1920000,
                               .loss = 0.12345,
                               .trained = absl::Seconds(30)};
constexpr char kHalfLine[] =
    "ring: step 1,500 of 3,000, loss 0.1235, 64,000 samples/s, 0:30 left";

TEST(ProgressLineTest, SaysHowFarHowFastAndHowLong) {
  EXPECT_EQ(ProgressLine("ring", 3000, kHalf), kHalfLine);
  EXPECT_EQ(ProgressLine("ring", 3000, {}), "ring: starting");
  EXPECT_EQ(
      ProgressLine(
          "a", 10,
          {.steps_done = 1, .samples = 7, .loss = 2, .trained = absl::Seconds(13.9)}),
      "a: step 1 of 10, loss 2.0000, 0 samples/s, 2:05 left");
  EXPECT_EQ(ProgressLine("a", 10, {.steps_done = 10, .samples = 50, .loss = 1}),
            "a: step 10 of 10, loss 1.0000, 0 samples/s, 0:00 left");
}

TEST(ProgressDisplayTest, RewritesOneLineOfATerminal) {
  std::ostringstream out;
  ProgressDisplay display(&out, WideTerminal);
  display.Show("ring", 3000, {}, absl::ZeroDuration());
  display.Show("ring", 3000, kHalf, absl::Milliseconds(1));
  EXPECT_EQ(out.str(),
            std::string(kEraseLine) + "ring: starting" + kEraseLine + kHalfLine);
}

TEST(ProgressDisplayTest, CutsALineThatWouldWrap) {
  std::ostringstream out;
  ProgressDisplay display(&out, NarrowTerminal);
  display.Show("ring", 3000, kHalf, absl::ZeroDuration());
  EXPECT_EQ(out.str(), std::string(kEraseLine) + "ring: step 1,500 of");
}

TEST(ProgressDisplayTest, VanishesOnceWhenClearedAndAtItsEnd) {
  std::ostringstream out;
  {
    ProgressDisplay display(&out, WideTerminal);
    display.Clear();
    EXPECT_EQ(out.str(), "");
    display.Show("ring", 3000, kHalf, absl::ZeroDuration());
    out.str("");
    display.Clear();
    display.Clear();
    EXPECT_EQ(out.str(), kEraseLine);
    display.Show("ring", 3000, kHalf, absl::ZeroDuration());
    out.str("");
  }
  EXPECT_EQ(out.str(), kEraseLine);
}

TEST(ProgressDisplayTest, WithoutATerminalAPlainLineEveryTenSeconds) {
  std::ostringstream out;
  {
    ProgressDisplay display(&out, NoTerminal);
    const auto shown_at = [&](absl::Duration now, const ArmProgress& progress) {
      out.str("");
      display.Show("ring", 3000, progress, now);
      return out.str();
    };
    const std::string line = std::string(kHalfLine) + "\n";
    EXPECT_EQ(shown_at(absl::Seconds(1), {}), "");  // Nothing to tell yet.
    EXPECT_EQ(shown_at(absl::Seconds(2), kHalf), line);
    EXPECT_EQ(shown_at(absl::Seconds(11.999), kHalf), "");
    EXPECT_EQ(shown_at(absl::Seconds(12), kHalf), line);
    EXPECT_EQ(shown_at(absl::Seconds(21), kHalf), "");
    EXPECT_EQ(shown_at(absl::Seconds(30), kHalf), line);
    out.str("");
  }
  EXPECT_EQ(out.str(), "");  // There is nothing to clear.
}

}  // namespace
}  // namespace psring
