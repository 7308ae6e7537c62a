// What psring cannot work with: configurations, data, addresses, folders and disks.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/end_to_end_test_util.h"
#include "tests/subprocess.h"

namespace psring {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;
using testing::StartsWith;

// Bad input is one line on stderr and exit code 2, and leaves no folder behind.
class BadInputTest : public EndToEndTest {
 protected:
  void ExpectRefused(const std::vector<std::string>& more, const std::string& message) {
    const auto psring = Start("compare", Config(3), more);
    EXPECT_THAT(psring->Wait(kPatience), Optional(2)) << psring->err();
    const std::vector<std::string> lines = absl::StrSplit(psring->err(), '\n');
    EXPECT_THAT(lines, ElementsAre(HasSubstr(message), IsEmpty()));
    EXPECT_THAT(psring->out(), IsEmpty());
    EXPECT_FALSE(fs::exists(Path("out")));
  }
};

TEST_F(BadInputTest, Configuration) {
  ExpectRefused({"--set", "training.stepz=3"}, "stepz");
  ExpectRefused({"--set", "cluster.workers=0"}, "cluster.workers");
  ExpectRefused({"--set", "training.global_batch=61"}, "global_batch");
  ExpectRefused({"--set", "training.global_batch=60002"}, "60000");
  ExpectRefused({"--set", "checkpoint.keep=0"}, "checkpoint.keep: is 0; allowed: 1 to");
  ExpectRefused(
      {"--set", "checkpoint={}", "--set", "arms[0].parameter_server.fixed_delay.delay=1"},
      "checkpoint: is set, and arm 'servers' has fixed_delay");
  ExpectRefused({"--set", "checkpoint={}", "--set", "arms[0].wire.top_k.share=0.5"},
                "checkpoint: is set, and arm 'servers' has a top_k wire");
  ExpectRefused({"--restore", Path("nowhere")}, "there is no checkpoint in ");
  ExpectRefused({"--set", "inject.flip_bit=[{element: 12730}]"},
                "inject.flip_bit[0].element: is 12730; allowed: 0 to 12729");
}

TEST_F(BadInputTest, ModelsAndPlansThatAreTooLarge) {
  const std::vector<std::string> llama = {"--set", "model={inventory {name: 'llama_7b'}}",
                                          "--set", "data={}",
                                          "--set", "compute={emulated {}}",
                                          "--set", "training.target_accuracy=0",
                                          "--set", "training.evaluation_interval=0"};
  ExpectRefused(
      llama,
      "model.inventory: llama_7b has 6738415616 elements; allowed: to be "
      "trained at most 1073741824, as with a divisor of 7; --dry-run takes any");
  std::vector<std::string> many = llama;
  many.insert(many.end(), {"--set", "model={tensors {elements: 5000 repeat: 100000}}",
                           "--set", "cluster.servers=4096"});
  ExpectRefused(many,
                "arm 'servers': its 100000 buckets on 4096 servers are 409600000 slots; "
                "allowed: at most 4194304");
}

// Exit code 2 where the build has no CUDA or does not train on it, 77 where the machine
// has no GPUs for it: either way before anything is started, and by a plan that says so.
TEST_F(BadInputTest, ADeviceThatIsNotThereIsOneLine) {
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"compare"}, {"run", "--arm", "ring"}}) {
    std::vector<std::string> more(command.begin() + 1, command.end());
    more.insert(more.end(), {"--set", "device=CUDA"});
    const auto psring = Start(command[0], Config(3), more);
    EXPECT_THAT(psring->Wait(kPatience), AnyOf(Optional(2), Optional(77)));
    const std::vector<std::string> lines = absl::StrSplit(psring->err(), '\n');
    EXPECT_THAT(lines, ElementsAre(AllOf(StartsWith("psring: device: is CUDA, and "),
                                         EndsWith("; allowed: CPU")),
                                   IsEmpty()));
    EXPECT_THAT(psring->out(), IsEmpty());
    EXPECT_FALSE(fs::exists(Path("out")));
    more.push_back("--dry-run");
    const auto plan = Start(command[0], Config(3), more);
    EXPECT_THAT(plan->Wait(kPatience), Optional(0));
    EXPECT_THAT(plan->out(), HasSubstr("\ndevice: CUDA, a GPU for each worker\n"));
  }
  ExpectRefused({"--set", "device=CUDA", "--set", "arms[1].ring.transport=SHARED_MEMORY"},
                "arms[1].ring.transport: is SHARED_MEMORY, which is processors' alone");
}

TEST_F(BadInputTest, MissingData) {
  ExpectRefused({"--set", absl::StrCat("data.fashion_mnist.directory=\"", folder_, "\"")},
                "dataset-fashion-mnist");
}

TEST_F(BadInputTest, TruncatedData) {
  const fs::path data = Path("data");
  fs::create_directory(data);
  for (const auto& entry : fs::directory_iterator("/usr/share/datasets/fashion-mnist")) {
    fs::copy(entry.path(), data / entry.path().filename());
  }
  const fs::path images = data / "train-images-idx3-ubyte.gz";
  fs::resize_file(images, fs::file_size(images) / 2);
  ExpectRefused(
      {"--set", absl::StrCat("data.fashion_mnist.directory=\"", data.string(), "\"")},
      "train-images-idx3-ubyte.gz");
}

TEST_F(BadInputTest, AnUnusableOutputFolderIsOneLine) {
  const std::string file = Write("file", "");
  for (const std::string& out : {absl::StrCat(file, "/out"), std::string("/proc/out")}) {
    Subprocess psring({"experiments/psring", "compare", Config(3), "--out", out});
    EXPECT_THAT(psring.Wait(kPatience), Optional(2)) << psring.err();
    EXPECT_THAT(psring.err(),
                HasSubstr(absl::StrCat("cannot use the output folder ", out)));
  }
  Subprocess psring({"experiments/psring", "compare", Config(3), "--out", folder_});
  EXPECT_THAT(psring.Wait(kPatience), Optional(2));
  EXPECT_THAT(psring.err(), HasSubstr("not empty"));
}

TEST_F(BadInputTest, AListenAddressWithoutAPortIsWrongUsage) {
  for (const char* address : {"127.0.0.1", "127.0.0.1:", ":7000", "::1:7000", "[::1]"}) {
    const auto psring =
        Start("run", Config(3), {"--arm", "ring", "--external", "--listen", address});
    EXPECT_THAT(psring->Wait(kEndOfRun), Optional(2)) << address;
    EXPECT_THAT(psring->err(),
                HasSubstr(absl::StrCat("\"", address, "\" is not HOST:PORT")));
  }
}

TEST_F(BadInputTest, ATakenPortIsOneLine) {
  const int taken = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(bind(taken, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(taken, 1), 0);
  ASSERT_EQ(getsockname(taken, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const std::string listen_at = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));

  // With one worker there is no note about processes that share cores.
  const auto psring = Start("run", Config(3),
                            {"--set", "cluster.workers=1", "--arm", "ring", "--external",
                             "--listen", listen_at});
  EXPECT_THAT(psring->Wait(kEndOfRun), Optional(1));
  const std::vector<std::string> lines = absl::StrSplit(psring->err(), '\n');
  // The first three announce the run and its arm.
  EXPECT_THAT(lines, ElementsAre(HasSubstr("results in"), StartsWith("arm ring: "),
                                 StartsWith("reduce (ring): "),
                                 AllOf(StartsWith("psring: arm ring: "),
                                       HasSubstr(listen_at), HasSubstr("taken")),
                                 IsEmpty()));
  EXPECT_THAT(Summary()["error"].get<std::string>(), HasSubstr(listen_at));
  close(taken);
}

// A limit on the size of files, in blocks of 512 bytes, stands for a disk without room.
class FullFolderTest : public EndToEndTest {
 protected:
  std::unique_ptr<Subprocess> Start(int blocks, int steps) {
    return std::make_unique<Subprocess>(std::vector<std::string>{
        "/bin/sh", "-c",
        absl::StrCat("trap '' XFSZ; ulimit -f ", blocks, "; exec \"$@\""), "sh",
        "experiments/psring", "compare", Config(steps), "--out", Path("out")});
  }
};

TEST_F(FullFolderTest, ThatTakesNothingIsOneLine) {
  // No room for the configuration, and room for that but not for an empty database.
  for (const auto& [blocks, file] : {std::pair(0, "config.textproto"), {16, "run.db"}}) {
    const auto psring = Start(blocks, /*steps=*/3);
    EXPECT_THAT(psring->Wait(kPatience), Optional(1));
    const std::vector<std::string> lines = absl::StrSplit(psring->err(), '\n');
    EXPECT_THAT(
        lines, ElementsAre(AllOf(HasSubstr("cannot write"), HasSubstr(file)), IsEmpty()));
    fs::remove_all(Path("out"));
  }
}

TEST_F(FullFolderTest, ThatFillsUpEndsTheRun) {
  // Room for more than what is written at once, however fast the steps are.
  const auto psring = Start(/*blocks=*/4000, kEndless);
  EXPECT_THAT(psring->Wait(kPatience), Optional(1));
  EXPECT_THAT(psring->err(), HasSubstr(absl::StrCat("psring: arm servers: cannot write ",
                                                    Path("out/run.db"))));
  EXPECT_GT(QueryOne("SELECT count(*) FROM steps"), 0);
}

}  // namespace
}  // namespace psring
