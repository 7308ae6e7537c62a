#include "experiments/config.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/job_plan.h"
#include "common/status_matchers.h"
#include "experiments/config_test_util.h"
#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

using google::protobuf::util::MessageDifferencer;
using testing::AllOf;
using testing::Eq;
using testing::HasSubstr;

constexpr char kText[] = R"(name: "test"
model { mlp { hidden: [8, 4] } }
data { fashion_mnist {} }
training {
  steps: 100
  global_batch: 12
  optimizer { sgd { learning_rate: 0.5 } }
}
cluster { workers: 2 servers: 1 }
arms { name: "ps" parameter_server {} }
arms { name: "ring" ring {} }
)";

absl::StatusOr<Experiment> Load(const std::vector<std::string>& overrides = {}) {
  return LoadText(kText, overrides);
}

TEST(LoadExperimentTest, FillsInDefaults) {
  ASSERT_OK_AND_ASSIGN(const Experiment experiment, Load());
  EXPECT_EQ(experiment.data().fashion_mnist().directory(),
            "/usr/share/datasets/fashion-mnist");
  EXPECT_EQ(experiment.buckets().cap_bytes(), 1 << 20);
  EXPECT_EQ(experiment.buckets().first_cap_bytes(), 256 << 10);
  EXPECT_TRUE(experiment.arms(0).parameter_server().has_sync());
  EXPECT_EQ(experiment.training().seed(), 0);
  EXPECT_EQ(experiment.training().seeds(), 1);
  EXPECT_EQ(experiment.training().non_finite(), Training::STOP);
  EXPECT_TRUE(experiment.compute().has_real());
  EXPECT_TRUE(experiment.training().optimizer().schedule().has_constant());
  EXPECT_TRUE(experiment.buckets().overlap());
  EXPECT_TRUE(experiment.arms(0).wire().has_fp32());
  EXPECT_TRUE(experiment.arms(1).wire().has_fp32());
  ASSERT_OK_AND_ASSIGN(const Experiment small, Load({"buckets.cap_bytes=4096"}));
  EXPECT_EQ(small.buckets().first_cap_bytes(), 4096);
  ASSERT_OK_AND_ASSIGN(const Experiment own,
                       Load({"arms[1].optimizer.adam.learning_rate=0.5"}));
  EXPECT_FALSE(own.arms(0).has_optimizer());
  EXPECT_FALSE(own.arms(0).has_buckets());
  EXPECT_EQ(own.arms(1).optimizer().adam().beta1(), 0.9f);
}

// As a whole, with defaults of their own.
TEST(LoadExperimentTest, AnArmsBucketsReplaceTheExperiments) {
  ASSERT_OK_AND_ASSIGN(const Experiment experiment,
                       Load({"buckets={cap_bytes: 4096 overlap: false}",
                             "arms[1].buckets.cap_bytes=8192"}));
  EXPECT_FALSE(experiment.buckets().overlap());
  const Buckets& own = experiment.arms(1).buckets();
  EXPECT_EQ(own.cap_bytes(), 8192);
  EXPECT_EQ(own.first_cap_bytes(), 8192);
  EXPECT_TRUE(own.overlap());
  ASSERT_OK_AND_ASSIGN(const Experiment again,
                       LoadExperiment(WriteExperiment(PrintExperiment(experiment)), {}));
  EXPECT_TRUE(MessageDifferencer::Equals(again, experiment));
}

TEST(LoadExperimentTest, AutoShowsTheRowsThatItStandsFor) {
  ASSERT_OK_AND_ASSIGN(const Experiment experiment,
                       Load({"arms[1].ring.algorithm=AUTO", "cluster.workers=4"}));
  const RingMode& ring = experiment.arms(1).ring();
  ASSERT_FALSE(ring.choices().empty());
  EXPECT_EQ(ring.choices(0).workers(), 4);
  ASSERT_OK_AND_ASSIGN(const Experiment again,
                       LoadExperiment(WriteExperiment(PrintExperiment(experiment)), {}));
  EXPECT_TRUE(MessageDifferencer::Equals(again, experiment));
  // They are the arm's, and so the arm's number of workers counts.
  ASSERT_OK_AND_ASSIGN(const Experiment two,
                       Load({"arms[1].ring.algorithm=AUTO", "cluster.workers=4",
                             "arms[1].cluster.workers=2"}));
  EXPECT_EQ(two.arms(1).ring().choices(0).workers(), 2);
}

TEST(LoadExperimentTest, KeepsWhatIsSet) {
  ASSERT_OK_AND_ASSIGN(
      const Experiment experiment,
      Load({"data.fashion_mnist.directory=/data", "buckets.cap_bytes=4096",
            "buckets.first_cap_bytes=1024", "training.epochs=3",
            "arms[0].parameter_server.sync.order=RANK"}));
  EXPECT_EQ(experiment.data().fashion_mnist().directory(), "/data");
  EXPECT_EQ(experiment.buckets().cap_bytes(), 4096);
  EXPECT_EQ(experiment.buckets().first_cap_bytes(), 1024);
  EXPECT_EQ(experiment.training().length_case(), Training::kEpochs);
  EXPECT_EQ(experiment.arms(0).parameter_server().sync().order(), Sync::RANK);
  ASSERT_OK_AND_ASSIGN(const Experiment bounded,
                       Load({"arms[0].parameter_server.bounded.bound=0"}));
  EXPECT_TRUE(bounded.arms(0).parameter_server().has_bounded());
}

TEST(LoadExperimentTest, AnArmsHostsReplaceTheExperimentsAndBothGetDefaults) {
  ASSERT_OK_AND_ASSIGN(
      const Experiment experiment,
      Load({"cluster.hosts={link_mbit_s: 100}",
            "arms[1].cluster={hosts: {link_mbit_s: 1000 congestion_control: CUBIC}}"}));
  EXPECT_EQ(experiment.cluster().hosts().queue_bytes(), 262144);
  EXPECT_EQ(experiment.arms(1).cluster().hosts().queue_bytes(), 1000000);
  EXPECT_FALSE(experiment.arms(0).has_cluster());
}

TEST(LoadExperimentTest, WiresOfArms) {
  ASSERT_OK_AND_ASSIGN(const Experiment experiment,
                       Load({"arms[0].wire.top_k.share=0.5", "arms[1].wire={bf16: {}}"}));
  EXPECT_EQ(experiment.arms(0).wire().top_k().share(), 0.5);
  EXPECT_TRUE(experiment.arms(1).wire().has_bf16());
  EXPECT_THAT(Load({"arms[1].wire={int8: {}}"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("arms[1].wire.int8: is for pushes to servers"),
                             HasSubstr("allowed: fp32, bf16, fp16"))));
}

TEST(LoadExperimentTest, HostsOfArms) {
  // The workers and servers of the arms that are on them, and no others, have hosts.
  const auto with = [](const std::string& links) {
    return "cluster.hosts={link_mbit_s: 100 links: {" + links + "}}";
  };
  EXPECT_OK(Load({with("host: 'server 0' send_mbit_s: 5")}));
  EXPECT_THAT(
      Load({with("host: 'server 70' send_mbit_s: 5")}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("cluster.hosts.links[0].host: no arm has a host 'server 70'")));
  EXPECT_THAT(
      Load({"cluster.hosts={link_mbit_s: 100}", "arms[1].ring.transport=SHARED_MEMORY"}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("--set arms[1].ring.transport=SHARED_MEMORY: "
                         "arms[1].ring.transport: SHARED_MEMORY is for processes "
                         "of one host")));
  EXPECT_THAT(
      Load({"cluster.hosts={link_mbit_s: 100}", "arms[1].cluster.workers=1200",
            "training.global_batch=1200"}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("has 1200 processes, each on a host of its own; allowed: at "
                         "most 1000")));
}

TEST(LoadExperimentTest, ColocatedServersNeedAWorkerEach) {
  const std::string hosts = "cluster.hosts={link_mbit_s: 100 colocated_servers: true}";
  ASSERT_OK_AND_ASSIGN(const Experiment experiment, Load({hosts, "cluster.servers=2"}));
  EXPECT_TRUE(experiment.cluster().hosts().colocated_servers());
  EXPECT_THAT(Load({hosts, "arms[0].cluster={workers: 2 servers: 3}"}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("cluster.hosts.colocated_servers: arm 'ps' has 3 "
                                 "servers for the hosts of 2 workers; allowed: at most "
                                 "as many servers as workers")));
  // As many hosts as workers.
  const std::vector<std::string> many = {"cluster.workers=1000", "cluster.servers=1000",
                                         "training.global_batch=1000"};
  EXPECT_OK(Load({hosts, many[0], many[1], many[2]}));
  EXPECT_THAT(
      Load({hosts, "cluster.hosts.colocated_servers=false", many[0], many[1], many[2]}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("has 2000 processes, each on a host of its own")));
}

TEST(LoadExperimentTest, TensorsNeedNoData) {
  ASSERT_OK_AND_ASSIGN(
      const Experiment experiment,
      Load({"compute.emulated={}", "model.tensors={elements: [7, 5]}", "data={}"}));
  EXPECT_FALSE(experiment.has_data());
  EXPECT_EQ(experiment.model().tensors().repeat(), 1);
  EXPECT_OK(CheckAgainstData(experiment, /*train_count=*/0));
  ASSERT_OK_AND_ASSIGN(const JobSpec spec, ResolveArm(experiment, experiment.arms(0), 0));
  EXPECT_EQ(spec.steps(), 100);
}

TEST(LoadExperimentTest, MissingFile) {
  EXPECT_THAT(
      LoadExperiment("/nowhere/x.textproto", {}),
      StatusIs(absl::StatusCode::kNotFound, "/nowhere/x.textproto: no such file"));
  EXPECT_THAT(LoadExperiment(testing::TempDir(), {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is a folder")));
}

TEST(LoadExperimentTest, ErrorsNameFileAndLine) {
  const auto load_with = [](const std::string& from, const std::string& to) {
    EXPECT_THAT(std::string(kText), HasSubstr(from));
    return LoadExperiment(WriteExperiment(absl::StrReplaceAll(kText, {{from, to}})), {});
  };
  const std::string file = WriteExperiment(kText);
  EXPECT_THAT(load_with("steps: 100", "stpes: 100"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(file + ":5: training.stpes: no such field; allowed: ")));
  EXPECT_THAT(load_with("global_batch: 12", "global_batch: -12"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       Eq(file + ":6: training.global_batch: is -12; allowed: at least "
                                 "1")));
  EXPECT_THAT(load_with("  global_batch: 12\n", ""),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       Eq(file + ":4: training.global_batch: missing; allowed: at least "
                                 "1")));
  EXPECT_THAT(load_with("name: \"test\"\n", ""),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       Eq(file + ":1: name: missing; allowed: letters, digits, '-', '_' "
                                 "and '.', not starting with '.'")));
}

TEST(LoadExperimentTest, DirectoriesAreUtf8) {
  const std::string field = "data.fashion_mnist.directory";
  for (const char* const good : {"/a", "/\u00e4", "/\u20ac", "/\U0001f600"}) {
    ASSERT_OK_AND_ASSIGN(const Experiment experiment, Load({field + "=" + good}));
    EXPECT_EQ(experiment.data().fashion_mnist().directory(), good);
  }
  // No first byte, cut off, no second byte, overlong, a surrogate, beyond the last.
  for (const char* const bad : {"\\xff", "\\xc3", "\\xc3/", "\\xc0\\x80",
                                "\\xed\\xa0\\x80", "\\xf4\\x90\\x80\\x80"}) {
    EXPECT_THAT(
        Load({field + "=\"" + bad + "\""}),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr(field + ": is '" + bad + "'; allowed: a path in UTF-8")));
  }
}

struct BadOverrides {
  std::vector<std::string> overrides;  // The last one is to blame.
  std::string error;
};

// Each thing that is checked, with the whole error.
TEST(LoadExperimentTest, Refuses) {
  const std::string names =
      "; allowed: letters, digits, '-', '_' and '.', not starting with '.'";
  const std::vector<BadOverrides> cases = {
      {{"name="}, "name: missing" + names},
      {{"name=.hidden"}, "name: is '.hidden'" + names},
      {{"name=a/b"}, "name: is 'a/b'" + names},
      {{"name=a b"}, "name: is 'a b'" + names},
      {{"arms[0].name="}, "arms[0].name: missing" + names},
      {{"arms[1].name=.."}, "arms[1].name: is '..'" + names},
      {{"arms[1].name=ps"},
       "arms[1].name: 'ps' is the name of arms[0] too; allowed: a name of its own"},
      {{"arms=[]"},
       "arms: missing; allowed: one or more arms { }, each with a name and a mode"},
      {{"arms=[{name: 'x'}]"},
       "arms[0]: has no mode; allowed: parameter_server, ring, local"},
      {{"model={}"}, "model: missing; allowed: mlp, tensors, inventory"},
      {{"model.tensors={elements: 7}"},
       "model.tensors: has nothing to compute; allowed: with compute { emulated { } }, "
       "else mlp"},
      {{"compute.emulated={}", "model.tensors={elements: 0}"},
       "model.tensors.elements[0]: is 0; allowed: at least 1, and at most 1073741824 "
       "over "
       "all tensors"},
      {{"compute.padded={}"},
       "compute.padded.step_ms: missing; allowed: a finite number above 0"},
      {{"arms[1].cluster.workers=3",
        "compute.emulated.rank_factor=[{rank: 2 factor: 2}]"},
       "compute.emulated.rank_factor[0].rank: is 2; allowed: 0 to 1, the ranks that all "
       "arms have"},
      {{"expect=[{flat {figure: 'step_ms_p50' arms: ['ps', 'x']}}]"},
       "expect[0].flat.arms[1]: is 'x'; allowed: ps, ring"},
      {{"data={}"}, "data: missing; allowed: fashion_mnist"},
      {{"model.mlp.hidden=[8, 0]"}, "model.mlp.hidden[1]: is 0; allowed: 1 to 1048576"},
      {{"model.mlp.hidden=[1048577]"},
       "model.mlp.hidden[0]: is 1048577; allowed: 1 to 1048576"},
      {{"cluster.workers=0"}, "cluster.workers: is 0; allowed: 1 to 4096"},
      {{"cluster.workers=-1"}, "cluster.workers: is -1; allowed: 1 to 4096"},
      {{"cluster.workers=4097"}, "cluster.workers: is 4097; allowed: 1 to 4096"},
      {{"cluster={servers: 1}"}, "cluster.workers: missing; allowed: 1 to 4096"},
      {{"cluster.servers=-1"}, "cluster.servers: is -1; allowed: 0 to 4096"},
      {{"cluster.servers=4097"}, "cluster.servers: is 4097; allowed: 0 to 4096"},
      {{"cluster.servers=0"},
       "cluster.servers: is 0, and arm 'ps' needs servers; allowed: 1 to 4096"},
      {{"cluster={workers: 2}"},
       "cluster.servers: missing, and arm 'ps' needs servers; allowed: 1 to 4096"},
      {{"arms[0].cluster.servers=0"},
       "arms[0].cluster.servers: is 0; allowed: 1 to 4096"},
      {{"arms[0].cluster.servers=4097"},
       "arms[0].cluster.servers: is 4097; allowed: 1 to 4096"},
      {{"arms[1].cluster.workers=0"},
       "arms[1].cluster.workers: is 0; allowed: 1 to 4096"},
      {{"arms[1].cluster.workers=-2"},
       "arms[1].cluster.workers: is -2; allowed: 1 to 4096"},
      {{"arms[1].cluster.servers=1"},
       "arms[1].cluster.servers: ring arms have no servers; allowed: leaving it out"},
      {{"arms[1].local={}", "arms[1].cluster.servers=1"},
       "arms[1].cluster.servers: local arms have no servers; allowed: leaving it out"},
      {{"arms[1].local={}", "arms[1].cluster.workers=2"},
       "arms[1].cluster.workers: local arms have one worker; allowed: 1, or leaving it "
       "out"},
      {{"training.global_batch=0"}, "training.global_batch: is 0; allowed: at least 1"},
      {{"cluster.workers=5", "training.global_batch=12"},
       "training.global_batch: 12 samples cannot be divided among the 5 workers of arm "
       "'ps'; allowed: multiples of 5, the nearest are 10 and 15"},
      {{"arms[1].cluster.workers=8", "training.global_batch=4"},
       "training.global_batch: 4 samples cannot be divided among the 8 workers of arm "
       "'ring'; allowed: multiples of 8, the nearest are 8"},
      {{"training={global_batch: 2}"}, "training: has no length; allowed: steps, epochs"},
      {{"training.steps=0"}, "training.steps: is 0; allowed: 1 to 1000000000"},
      {{"training.epochs=-1"}, "training.epochs: is -1; allowed: at least 1"},
      {{"training.optimizer={}"},
       "training.optimizer: missing; allowed: sgd, adam, adamw, adagrad"},
      {{"training.optimizer={adam {beta1: 0.5}}"},
       "training.optimizer.adam.learning_rate: missing; allowed: a finite number above "
       "0"},
      {{"training.optimizer.sgd.nesterov=yes"},
       "training.optimizer.sgd.nesterov: not a value of this field (Invalid value for "
       "boolean field \"nesterov\". Value: \"yes\".); allowed: true or false"},
      {{"training.optimizer.sgd={}"},
       "training.optimizer.sgd.learning_rate: missing; allowed: a finite number above 0"},
      {{"training.optimizer.sgd.learning_rate=0"},
       "training.optimizer.sgd.learning_rate: is 0; allowed: a finite number above 0"},
      {{"training.optimizer.sgd.learning_rate=-0.5"},
       "training.optimizer.sgd.learning_rate: is -0.5; allowed: a finite number above 0"},
      {{"training.optimizer.sgd.learning_rate=inf"},
       "training.optimizer.sgd.learning_rate: is inf; allowed: a finite number above 0"},
      {{"training.optimizer.sgd.learning_rate=nan"},
       "training.optimizer.sgd.learning_rate: is nan; allowed: a finite number above 0"},
      {{"training.optimizer.sgd.momentum=1"},
       "training.optimizer.sgd.momentum: is 1; allowed: at least 0 and below 1"},
      {{"training.optimizer.sgd.momentum=-0.5"},
       "training.optimizer.sgd.momentum: is -0.5; allowed: at least 0 and below 1"},
      {{"training.optimizer.sgd.momentum=nan"},
       "training.optimizer.sgd.momentum: is nan; allowed: at least 0 and below 1"},
      {{"training.optimizer.sgd.weight_decay=-1"},
       "training.optimizer.sgd.weight_decay: is -1; allowed: a finite number of at least "
       "0"},
      {{"training.optimizer.sgd.weight_decay=inf"},
       "training.optimizer.sgd.weight_decay: is inf; allowed: a finite number of at "
       "least 0"},
      {{"training.target_accuracy=1.5"},
       "training.target_accuracy: is 1.5; allowed: 0 to 1"},
      {{"training.target_accuracy=-0.5"},
       "training.target_accuracy: is -0.5; allowed: 0 to 1"},
      {{"training.target_accuracy=nan"},
       "training.target_accuracy: is nan; allowed: 0 to 1"},
      {{"training.evaluation_interval=-1"},
       "training.evaluation_interval: is -1; allowed: at least 0"},
      {{"training.digest_interval=-1"},
       "training.digest_interval: is -1; allowed: at least 0"},
      {{"buckets.cap_bytes=3"}, "buckets.cap_bytes: is 3; allowed: at least 4"},
      {{"buckets.cap_bytes=0"}, "buckets.cap_bytes: is 0; allowed: at least 4"},
      {{"buckets.first_cap_bytes=-4"},
       "buckets.first_cap_bytes: is -4; allowed: at least 4"},
      {{"arms[1].buckets.cap_bytes=3"},
       "arms[1].buckets.cap_bytes: is 3; allowed: at least 4"},
      {{"arms[0].buckets.first_cap_bytes=0"},
       "arms[0].buckets.first_cap_bytes: is 0; allowed: at least 4"},
      {{"on_failure=7"}, "on_failure: is 7; allowed: STOP"},
      {{"device=7"}, "device: is 7; allowed: CPU, CUDA"},
      {{"device=CUDA", "arms[1].ring.transport=SHARED_MEMORY"},
       "arms[1].ring.transport: is SHARED_MEMORY, which is processors' alone, and device "
       "is CUDA; allowed: TCP, GRPC"},
      {{"arms[0].parameter_server.sync.order=7"},
       "arms[0].parameter_server.sync.order: is 7; allowed: RING, RANK"},
      {{"training.seeds=0"}, "training.seeds: is 0; allowed: 1 to 1000"},
      {{"training.seeds=1001"}, "training.seeds: is 1001; allowed: 1 to 1000"},
      {{"training.seeds=2", "training.seed=18446744073709551615"},
       "training.seed: is 18446744073709551615, and 2 seeds from there are more than "
       "there are; allowed: at most 18446744073709551614"},
      {{"training.non_finite=7"}, "training.non_finite: is 7; allowed: STOP, SKIP"},
      {{"arms[1].optimizer.sgd.learning_rate=0"},
       "arms[1].optimizer.sgd.learning_rate: is 0; allowed: a finite number above 0"},
      {{"liveness.stall_seconds=-1"},
       "liveness.stall_seconds: is -1; allowed: a finite number above 0"},
      {{"liveness.dead_seconds=nan"},
       "liveness.dead_seconds: is nan; allowed: a finite number above 0"},
      {{"liveness.dead_seconds=2"},
       "liveness.dead_seconds: is 2; allowed: more than two heartbeats, 2"},
      {{"checkpoint.every_steps=-1"},
       "checkpoint.every_steps: is -1; allowed: at least 1, or 0: only when a signal "
       "asks "
       "for one"},
      {{"checkpoint.keep=0"}, "checkpoint.keep: is 0; allowed: 1 to 1000"},
      {{"checkpoint.keep=1001"}, "checkpoint.keep: is 1001; allowed: 1 to 1000"},
      {{"inject.slow_worker=[{rank: 2 factor: 2}]"},
       "inject.slow_worker[0].rank: is 2; allowed: 0 to 1, the ranks that all arms have"},
      {{"arms[1].cluster.workers=1", "inject.slow_worker=[{rank: 1 factor: 2}]"},
       "inject.slow_worker[0].rank: is 1; allowed: 0 to 0, the ranks that all arms have"},
      {{"inject.slow_worker=[{rank: -1 factor: 2}]"},
       "inject.slow_worker[0].rank: is -1; allowed: 0 to 1, the ranks that all arms "
       "have"},
      {{"inject.slow_worker=[{rank: 1 factor: 2}, {rank: 1 factor: 3}]"},
       "inject.slow_worker[1].rank: rank 1 is named twice; allowed: each rank "
       "once"},
      {{"inject.stall_worker=[{rank: 2 step: 1}]"},
       "inject.stall_worker[0].rank: is 2; allowed: 0 to 1, the ranks that all arms "
       "have"},
      {{"inject.stall_worker=[{rank: 1 step: -1}]"},
       "inject.stall_worker[0].step: is -1; allowed: at least 0"},
      {{"inject.flip_bit=[{rank: 2}]"},
       "inject.flip_bit[0].rank: is 2; allowed: 0 to 1, the ranks that all arms have"},
      {{"inject.slow_worker=[{rank: 1 factor: 0.5}]"},
       "inject.slow_worker[0].factor: is 0.5; allowed: a finite number of at least 1"},
      {{"inject.slow_worker=[{rank: 1}]"},
       "inject.slow_worker[0].factor: missing; allowed: a finite number of at least 1"},
      {{"inject.slow_worker=[{rank: 1 factor: inf}]"},
       "inject.slow_worker[0].factor: is inf; allowed: a finite number of at least 1"},
  };
  for (const BadOverrides& bad : cases) {
    EXPECT_THAT(
        Load(bad.overrides),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 Eq(absl::StrCat("--set ", bad.overrides.back(), ": ", bad.error))));
  }
}

// The edges of what is allowed, and what looks odd but has a meaning.
TEST(LoadExperimentTest, Accepts) {
  for (const std::vector<std::string>& overrides : std::vector<std::vector<std::string>>{
           {"name=a-b_c.0"},
           {"model.mlp.hidden=[]"},
           {"model.mlp.hidden=[1, 1048576]"},
           {"cluster.workers=4096", "training.global_batch=4096"},
           {"arms[1].cluster.workers=3"},
           {"training.optimizer.sgd.momentum=0.999"},
           {"training.optimizer.adamw.learning_rate=0.001",
            "training.optimizer.schedule.warmup_steps=10"},
           {"training.optimizer={adagrad {learning_rate: 1} schedule {cosine {}}}"},
           {"training.target_accuracy=1"},
           {"buckets.cap_bytes=4"},
           // Servers are not needed where there are no parameter servers.
           {"arms[0].local={}", "cluster={workers: 2}"},
           // Local arms neither need nor limit the number of workers.
           {"arms=[{name: 'local' local {}}]", "cluster={}"},
           {"arms[0].local={}", "inject.slow_worker=[{rank: 1 factor: 2}]"},
           {"training.seeds=1000"},
           {"training.seeds=1", "training.seed=18446744073709551615"},
           {"training.non_finite=SKIP"},
           {"compute.padded.step_ms=20"},
           {"compute.emulated={}", "model.tensors={elements: 7}", "data={}"},
           {"expect=[{flat {figure: 'step_ms_p50' arms: ['ps', 'ring']}}]"},
           {"arms[0].parameter_server.backup.spares=1"},
           {"arms[0].parameter_server.async={}",
            "arms[0].parameter_server.stale_updates={scale: ONE drop_above: 0}"},
           {"arms[1].optimizer={adamw {learning_rate: 0.1} schedule {cosine {}}}"},
       }) {
    EXPECT_OK(Load(overrides)) << testing::PrintToString(overrides);
  }
}

TEST(PrintExperimentTest, ParsesBackToItself) {
  ASSERT_OK_AND_ASSIGN(
      const Experiment experiment,
      Load({"training.optimizer.sgd.learning_rate=0.1", "training.target_accuracy=0.7",
            "training.seed=18446744073709551613", "arms[1].cluster.workers=4",
            "inject.slow_worker=[{rank: 1 factor: 1.1}]",
            "training.optimizer.adam={learning_rate: 0.1 beta1: 0}",
            "training.optimizer.schedule={warmup_steps: 9 cosine {final_factor: 0.1}}",
            "training.seeds=3", "arms[1].optimizer.adagrad.learning_rate=0.1",
            "arms[0].parameter_server.bounded={}",
            "arms[0].parameter_server.stale_updates={drop_above: 0}",
            "compute.padded.step_ms=0.1",
            "expect=[{ratio {figure: 'step_ms_p50' arm: 'ps' over: 'ring' high: 0.3}}]",
            "data.fashion_mnist.directory=/a \"b\"", "device=CUDA"}));
  const std::string text = PrintExperiment(experiment);
  ASSERT_OK_AND_ASSIGN(const Experiment again, LoadExperiment(WriteExperiment(text), {}));
  EXPECT_TRUE(MessageDifferencer::Equals(experiment, again)) << text;
}

}  // namespace
}  // namespace psring
