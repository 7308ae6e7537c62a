// psring report and psring figures as a user runs them, and their pages as a browser
// shows them.
#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/subprocess.h"

namespace psring {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Optional;

constexpr absl::Duration kPatience = absl::Minutes(4);
constexpr char kPlaywright[] = "external/npm_packages/node_modules/playwright-core";

constexpr char kExperiment[] = R"(
name: "small"
model { mlp { hidden: 8 } }
data { fashion_mnist {} }
training {
  steps: 60 global_batch: 32 seed: 1 seeds: 2
  optimizer { sgd { learning_rate: 0.1 } }
  evaluation_interval: 20 target_accuracy: 0.05 digest_interval: 1
}
cluster { workers: 2 servers: 1 }
buckets { cap_bytes: 20000 }
arms { name: "sync" parameter_server {} }
arms { name: "async" parameter_server { async {} } }
arms { name: "ring" ring {} }
)";

std::string Folder(const std::string& name) {
  return absl::StrCat(testing::TempDir(), "/", name);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::unique_ptr<Subprocess> Psring(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "experiments/psring");
  return std::make_unique<Subprocess>(arguments);
}

std::string WriteExperiment(const std::string& name, const std::string& text) {
  const std::string path = Folder(name + ".textproto");
  std::ofstream(path) << text;
  return path;
}

// A page is too long to be shown where something is wrong with it: this is its verdict.
std::string VerdictOf(const std::string& page) {
  const size_t begin = page.find("<section class=\"verdict\"");
  const size_t end = page.find("</section>", begin);
  return begin == std::string::npos ? "" : page.substr(begin, end - begin);
}

// Why there is no browser here; nothing where there is one.
std::string NoBrowser() {
  if (!fs::exists(kPlaywright)) return "psring was built without npm's packages";
  for (const char* const program : {"/usr/bin/chromium", "/usr/bin/node"}) {
    if (!fs::exists(program)) return absl::StrCat("there is no ", program);
  }
  return "";
}

// The page in four views and on paper; `name` is the folder of its pictures.
void LookAt(const std::string& page, const std::string& name) {
  const char* const outputs = getenv("TEST_UNDECLARED_OUTPUTS_DIR");
  const std::string folder =
      absl::StrCat(outputs == nullptr ? testing::TempDir() : outputs, "/", name);
  setenv("HOME", testing::TempDir().c_str(), 1);  // Chromium keeps its profile there.
  Subprocess browser({"/usr/bin/node", "tests/report_browser.js", kPlaywright,
                      "/usr/bin/chromium", page, folder});
  EXPECT_THAT(browser.Wait(kPatience), Optional(0)) << browser.out() << browser.err();
  EXPECT_THAT(browser.out(),
              MatchesRegex("looked at [1-9][0-9]* charts with [1-9][0-9]* marks in 4 "
                           "views, and [1-9][0-9]* printed sheets\n"));
}

TEST(ReportBrowserTest, ThePageOfAComparisonDrawsEverything) {
  if (const std::string why = NoBrowser(); !why.empty()) GTEST_SKIP() << why;
  const std::string run = Folder("whole");
  const auto compare =
      Psring({"compare", WriteExperiment("whole", kExperiment), "--out", run});
  ASSERT_THAT(compare->Wait(kPatience), Optional(0)) << compare->err();
  EXPECT_THAT(compare->err(), HasSubstr(absl::StrCat("report: ", run, "/report.html")));
  const std::string page = ReadFile(run + "/report.html");
  EXPECT_THAT(VerdictOf(page), HasSubstr("reached 5 % test accuracy after "));
  LookAt(run + "/report.html", "whole");

  // The command makes the same page of the database alone.
  const std::string again = Folder("again.html");
  const auto report = Psring({"report", run + "/run.db", "-o", again});
  EXPECT_THAT(report->Wait(kPatience), Optional(0)) << report->err();
  EXPECT_EQ(report->out(), again + "\n");
  EXPECT_TRUE(ReadFile(again) == page) << "the two pages differ";
}

TEST(ReportBrowserTest, ThePageOfOneArmThatContinuedFromACheckpoint) {
  if (!fs::exists(kPlaywright)) GTEST_SKIP() << "psring was built without npm's packages";
  const std::string experiment = WriteExperiment("one", kExperiment);
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {
        "run",   experiment,         "--arm", "sync",
        "--set", "training.seeds=1", "--set", "checkpoint={every_steps: 20}"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto psring = Psring(arguments);
    EXPECT_THAT(psring->Wait(kPatience), Optional(0)) << psring->err();
  };
  run({"--out", Folder("begun")});
  run({"--out", Folder("continued"), "--restore", Folder("begun")});
  const std::string page = ReadFile(Folder("continued/report.html"));
  EXPECT_THAT(VerdictOf(page), AllOf(HasSubstr("All 4 certificates that apply pass"),
                                     HasSubstr("Not run, or not yet: async, ring.")));
  const std::string again = Folder("one.html");
  const auto report = Psring({"report", Folder("continued"), "-o", again});
  EXPECT_THAT(report->Wait(kPatience), Optional(0)) << report->err();
  EXPECT_TRUE(ReadFile(again) == page) << VerdictOf(ReadFile(again));
}

TEST(ReportBrowserTest, ThePageOfAKilledRunShowsWhatThereIs) {
  if (const std::string why = NoBrowser(); !why.empty()) GTEST_SKIP() << why;
  const std::string run = Folder("killed");
  const auto compare =
      Psring({"compare", WriteExperiment("killed", kExperiment), "--set",
              "training.steps=1000000", "--set", "training.seeds=1", "--out", run});
  // Until some steps are on the disk.
  std::error_code error;
  const absl::Time deadline = absl::Now() + kPatience;
  while (!fs::exists(run + "/run.db-wal", error) ||
         fs::file_size(run + "/run.db-wal", error) < 1'000'000) {
    ASSERT_LT(absl::Now(), deadline) << compare->err();
    absl::SleepFor(absl::Milliseconds(50));
  }
  for (const ChildProcess& child : ChildrenOf(compare->pid())) kill(child.pid, SIGKILL);
  compare->Signal(SIGKILL);
  compare->Wait(kPatience);
  const auto report = Psring({"report", run});
  EXPECT_THAT(report->Wait(kPatience), Optional(0)) << report->err();
  EXPECT_THAT(VerdictOf(ReadFile(run + "/report.html")),
              AllOf(HasSubstr("Nobody won: no arm has come to its end."),
                    HasSubstr("sync did not come to its end: "),
                    HasSubstr("Not run, or not yet: async, ring.")));
  LookAt(run + "/report.html", "killed");
}

TEST(FiguresBrowserTest, ThePageDrawsEverything) {
  if (const std::string why = NoBrowser(); !why.empty()) GTEST_SKIP() << why;
  const std::string run = Folder("drawn");
  const auto compare = Psring({"compare", WriteExperiment("drawn", kExperiment), "--set",
                               "training.seeds=1", "--out", run});
  ASSERT_THAT(compare->Wait(kPatience), Optional(0)) << compare->err();
  const std::string path = Folder("figures.html");
  const auto figures = Psring({"figures", run, "-o", path});
  ASSERT_THAT(figures->Wait(kPatience), Optional(0)) << figures->err();
  EXPECT_EQ(figures->out(), path + "\n");
  EXPECT_EQ(figures->err(), "");
  const std::string page = ReadFile(path);
  EXPECT_TRUE(page.find("In sync all ") != std::string::npos);
  EXPECT_TRUE(page.find("In async ") != std::string::npos);
  LookAt(path, "figures");
}

TEST(FiguresBrowserTest, ThePageWithoutARunDrawsTheOthers) {
  if (const std::string why = NoBrowser(); !why.empty()) GTEST_SKIP() << why;
  const std::string path = Folder("without.html");
  const auto figures =
      Psring({"figures", "--out", path, "--ranks", "7", "--model", "resnet50"});
  ASSERT_THAT(figures->Wait(kPatience), Optional(0)) << figures->err();
  LookAt(path, "figures-without");
}

TEST(FiguresBrowserTest, BadInputIsOneLine) {
  if (!fs::exists(kPlaywright)) GTEST_SKIP() << "psring was built without npm's packages";
  const std::string path = Folder("never.html");
  const auto line_of = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "figures");
    const auto figures = Psring(arguments);
    EXPECT_THAT(figures->Wait(kPatience), Optional(2));
    EXPECT_EQ(figures->out(), "");
    EXPECT_FALSE(fs::exists(path));
    return figures->err();
  };
  EXPECT_EQ(line_of({"/nowhere", "-o", path}),
            "psring: /nowhere: there is no such run folder or run.db\n");
  const std::string nowhere = Folder("none/figures.html");
  EXPECT_EQ(line_of({"-o", nowhere}),
            absl::StrCat("psring: cannot write ", nowhere,
                         ": No such file or directory; allowed: a file in a folder that "
                         "can be written\n"));
  EXPECT_THAT(line_of({"--ranks", "8", "-o", path}), HasSubstr("--ranks"));
  EXPECT_THAT(line_of({"--model", "alexnet", "-o", path}), HasSubstr("alexnet"));
}

TEST(ReportBrowserTest, BadInputIsOneLine) {
  if (!fs::exists(kPlaywright)) GTEST_SKIP() << "psring was built without npm's packages";
  const std::string empty = Folder("empty");
  fs::create_directories(empty);
  for (const std::string& path : {std::string("/nowhere"), empty}) {
    const auto report = Psring({"report", path});
    EXPECT_THAT(report->Wait(kPatience), Optional(2));
    EXPECT_EQ(report->out(), "");
    EXPECT_EQ(report->err(),
              absl::StrCat("psring: ", path,
                           " is no run: it has no run.db; allowed: a folder that psring "
                           "compare or run has made, or its run.db\n"));
  }
  EXPECT_THAT(Psring({"report"})->Wait(kPatience), Optional(2));
}

TEST(ReportBrowserTest, WithoutTheChartLibraryOneLineSaysSo) {
  if (fs::exists(kPlaywright)) GTEST_SKIP() << "psring was built with npm's packages";
  const auto report = Psring({"report", "/nowhere"});
  EXPECT_THAT(report->Wait(kPatience), Optional(77));
  EXPECT_THAT(report->err(), HasSubstr("psring was built without the library that draws "
                                       "charts, because "));
  const auto figures = Psring({"figures", "-o", Folder("never.html")});
  EXPECT_THAT(figures->Wait(kPatience), Optional(77));
  EXPECT_THAT(figures->err(), HasSubstr("psring: figures: psring was built without "));
}

}  // namespace
}  // namespace psring
