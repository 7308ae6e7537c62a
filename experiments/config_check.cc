#include "experiments/config_check.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/liveness.h"
#include "common/status_macros.h"
#include "experiments/checkpoint_config.h"
#include "experiments/compute_config.h"
#include "experiments/consistency_config.h"
#include "experiments/device_config.h"
#include "experiments/hosts/host_settings.h"
#include "experiments/inject_config.h"
#include "experiments/inventory.h"
#include "experiments/optimizer_config.h"
#include "experiments/ring_config.h"
#include "experiments/step_config.h"
#include "experiments/wire_config.h"

namespace psring {
namespace {

constexpr int64_t kWidestLayer = 1 << 20;
constexpr int64_t kSmallestBucketBytes = sizeof(float);

std::string Quoted(const std::string& text) {
  return absl::StrCat("'", absl::Utf8SafeCEscape(text), "'");
}

// The texts of a message that is sent must be UTF-8; text format takes any bytes.
bool IsUtf8(absl::string_view text) {
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};  // By length in bytes.
  while (!text.empty()) {
    const auto first = static_cast<unsigned char>(text[0]);
    const auto length = static_cast<size_t>(std::countl_one(first));
    const size_t bytes = std::max<size_t>(length, 1);
    if (length == 1 || length > 4 || bytes > text.size()) return false;
    char32_t character = first & (0x7f >> length);
    for (const char next : text.substr(1, bytes - 1)) {
      if ((next & 0xc0) != 0x80) return false;
      character = character << 6 | (next & 0x3f);
    }
    const bool surrogate = character >= 0xd800 && character < 0xe000;
    if (character < kSmallest[bytes] || character > 0x10ffff || surrogate) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

std::string Members(const google::protobuf::Message& message, const char* oneof) {
  return MemberNames(*message.GetDescriptor()->FindOneofByName(oneof));
}

// The checks of one experiment, each named after the part of it that it looks at.
class Checker {
 public:
  Checker(const Experiment& experiment, const FieldOrigins& origins)
      : experiment_(experiment), origins_(origins) {}

  absl::Status Check() const {
    RETURN_IF_ERROR(CheckName("name", experiment_.name()));
    RETURN_IF_ERROR(CheckModel());
    RETURN_IF_ERROR(CheckData());
    RETURN_IF_ERROR(CheckTraining());
    RETURN_IF_ERROR(CheckSteps(experiment_, origins_));
    RETURN_IF_ERROR(CheckCluster());
    RETURN_IF_ERROR(CheckBuckets("buckets", experiment_.buckets()));
    RETURN_IF_ERROR(CheckLiveness());
    if (!OnFailure_IsValid(experiment_.on_failure())) {
      return Wrong("on_failure", absl::StrCat("is ", int{experiment_.on_failure()}),
                   ValueNames(*OnFailure_descriptor()));
    }
    RETURN_IF_ERROR(CheckArms());
    RETURN_IF_ERROR(CheckArmsHosts());
    RETURN_IF_ERROR(CheckCheckpoint(experiment_, origins_));
    RETURN_IF_ERROR(CheckInject());
    RETURN_IF_ERROR(CheckDeviceSettings(experiment_, origins_));
    return CheckCompute(experiment_, CommonRanks(), origins_);
  }

 private:
  absl::Status Wrong(const std::string& path, const std::string& problem,
                     const std::string& allowed) const {
    return origins_.Error(path, problem, allowed);
  }
  absl::Status Missing(const std::string& path, const std::string& allowed) const {
    return Wrong(path, "missing", allowed);
  }
  // A field of a number that must be given.
  absl::Status WrongOrMissing(const std::string& path, double value,
                              const std::string& allowed) const {
    return origins_.Has(path) ? Wrong(path, absl::StrCat("is ", value), allowed)
                              : Missing(path, allowed);
  }

  // Names become folders.
  absl::Status CheckName(const std::string& path, const std::string& name) const {
    const auto in_name = [](unsigned char c) {
      return c < 128 && (std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.');
    };
    const std::string allowed =
        "letters, digits, '-', '_' and '.', not starting with '.'";
    if (name.empty()) return Missing(path, allowed);
    if (name[0] == '.' || !std::ranges::all_of(name, in_name)) {
      return Wrong(path, absl::StrCat("is ", Quoted(name)), allowed);
    }
    return absl::OkStatus();
  }

  absl::Status CheckModel() const {
    if (experiment_.model().kind_case() == ModelSettings::KIND_NOT_SET) {
      return Missing("model", Members(ModelSettings(), "kind"));
    }
    if (experiment_.model().has_tensors()) {
      return CheckTensorList(experiment_.model().tensors(), origins_);
    }
    if (experiment_.model().has_inventory()) {
      return CheckInventory(experiment_.model().inventory(), origins_);
    }
    const MlpSettings& mlp = experiment_.model().mlp();
    for (int i = 0; i < mlp.hidden_size(); ++i) {
      if (mlp.hidden(i) >= 1 && mlp.hidden(i) <= kWidestLayer) continue;
      return Wrong(absl::StrCat("model.mlp.hidden[", i, "]"),
                   absl::StrCat("is ", mlp.hidden(i)),
                   absl::StrCat("1 to ", kWidestLayer));
    }
    return absl::OkStatus();
  }

  absl::Status CheckData() const {
    const bool needed = !HasShapesAlone(experiment_.model());
    if (needed && experiment_.data().kind_case() == DataSettings::KIND_NOT_SET) {
      return Missing("data", Members(DataSettings(), "kind"));
    }
    const std::string& directory = experiment_.data().fashion_mnist().directory();
    if (!IsUtf8(directory)) {
      return Wrong("data.fashion_mnist.directory",
                   absl::StrCat("is '", absl::CHexEscape(directory), "'"),
                   "a path in UTF-8");
    }
    return absl::OkStatus();
  }

  absl::Status CheckTraining() const {
    const Training& training = experiment_.training();
    switch (training.length_case()) {
      case Training::kSteps:
        if (training.steps() < 1 || training.steps() > kMostSteps) {
          return Wrong("training.steps", absl::StrCat("is ", training.steps()),
                       absl::StrCat("1 to ", kMostSteps));
        }
        break;
      case Training::kEpochs:
        RETURN_IF_ERROR(CheckAtLeast("training.epochs", training.epochs(), 1));
        break;
      case Training::LENGTH_NOT_SET:
        return Wrong("training", "has no length", Members(training, "length"));
    }
    if (training.global_batch() < 1) {
      return WrongOrMissing("training.global_batch",
                            static_cast<double>(training.global_batch()), "at least 1");
    }
    RETURN_IF_ERROR(CheckOptimizer(training.optimizer(), "training.optimizer", origins_));
    RETURN_IF_ERROR(
        CheckAtLeast("training.evaluation_interval", training.evaluation_interval(), 0));
    RETURN_IF_ERROR(
        CheckAtLeast("training.digest_interval", training.digest_interval(), 0));
    const double target = training.target_accuracy();
    if (!(target >= 0 && target <= 1)) {
      return Wrong("training.target_accuracy", absl::StrCat("is ", target), "0 to 1");
    }
    if (!Training::NonFinite_IsValid(training.non_finite())) {
      return Wrong("training.non_finite", absl::StrCat("is ", int{training.non_finite()}),
                   ValueNames(*Training::NonFinite_descriptor()));
    }
    return CheckSeeds(training);
  }

  absl::Status CheckSeeds(const Training& training) const {
    if (!origins_.Has("training.seeds")) return absl::OkStatus();
    const int64_t seeds = training.seeds();
    if (seeds < 1 || seeds > kMostSeeds) {
      return Wrong("training.seeds", absl::StrCat("is ", seeds),
                   absl::StrCat("1 to ", kMostSeeds));
    }
    const uint64_t most = std::numeric_limits<uint64_t>::max() - (seeds - 1);
    if (training.seed() <= most) return absl::OkStatus();
    return Wrong("training.seed",
                 absl::StrCat("is ", training.seed(), ", and ", seeds,
                              " seeds from there are more than there are"),
                 absl::StrCat("at most ", most));
  }

  absl::Status CheckAtLeast(const std::string& path, int64_t value,
                            int64_t smallest) const {
    if (value >= smallest) return absl::OkStatus();
    return Wrong(path, absl::StrCat("is ", value), absl::StrCat("at least ", smallest));
  }

  // A number of processes that is written at `path`, if it is.
  absl::Status CheckCount(const std::string& path, int64_t value,
                          int64_t smallest) const {
    if (!origins_.Has(path) || (value >= smallest && value <= kMostProcesses)) {
      return absl::OkStatus();
    }
    return Wrong(path, absl::StrCat("is ", value),
                 absl::StrCat(smallest, " to ", kMostProcesses));
  }

  absl::Status CheckCluster() const {
    RETURN_IF_ERROR(CheckCount("cluster.workers", experiment_.cluster().workers(), 1));
    return CheckCount("cluster.servers", experiment_.cluster().servers(), 0);
  }

  absl::Status CheckBuckets(const std::string& at, const Buckets& buckets) const {
    const auto check = [this](const std::string& path, int64_t bytes) {
      return origins_.Has(path) ? CheckAtLeast(path, bytes, kSmallestBucketBytes)
                                : absl::OkStatus();
    };
    RETURN_IF_ERROR(check(at + ".cap_bytes", buckets.cap_bytes()));
    return check(at + ".first_cap_bytes", buckets.first_cap_bytes());
  }

  absl::Status CheckLiveness() const {
    const Liveness& liveness = experiment_.liveness();
    const auto check = [this](const std::string& path, double seconds) {
      if (!origins_.Has(path) || (seconds > 0 && std::isfinite(seconds))) {
        return absl::OkStatus();
      }
      return WrongOrMissing(path, seconds, "a finite number above 0");
    };
    RETURN_IF_ERROR(check("liveness.heartbeat_seconds", liveness.heartbeat_seconds()));
    RETURN_IF_ERROR(check("liveness.dead_seconds", liveness.dead_seconds()));
    RETURN_IF_ERROR(check("liveness.stall_seconds", liveness.stall_seconds()));
    const LivenessSettings settings = SettingsOf(liveness);
    if (settings.dead <= 2 * settings.heartbeat) {
      return Wrong("liveness.dead_seconds",
                   absl::StrCat("is ", absl::ToDoubleSeconds(settings.dead)),
                   absl::StrCat("more than two heartbeats, ",
                                absl::ToDoubleSeconds(2 * settings.heartbeat)));
    }
    return absl::OkStatus();
  }

  absl::Status CheckArms() const {
    if (experiment_.arms().empty()) {
      return Missing("arms", "one or more arms { }, each with a name and a mode");
    }
    std::map<std::string, int> names;
    for (int i = 0; i < experiment_.arms_size(); ++i) {
      const std::string path = absl::StrCat("arms[", i, "]");
      const Arm& arm = experiment_.arms(i);
      RETURN_IF_ERROR(CheckName(path + ".name", arm.name()));
      const auto [first, is_new] = names.emplace(arm.name(), i);
      if (!is_new) {
        return Wrong(path + ".name",
                     absl::StrCat(Quoted(arm.name()), " is the name of arms[",
                                  first->second, "] too"),
                     "a name of its own");
      }
      RETURN_IF_ERROR(CheckMode(path, arm));
      RETURN_IF_ERROR(CheckArmCluster(path, arm));
      if (arm.has_parameter_server()) {
        const Cluster cluster = ResolveCluster(experiment_, arm);
        RETURN_IF_ERROR(CheckConsistency(arm.parameter_server(),
                                         static_cast<int>(cluster.workers()),
                                         path + ".parameter_server", origins_));
      }
      if (arm.has_optimizer()) {
        RETURN_IF_ERROR(CheckOptimizer(arm.optimizer(), path + ".optimizer", origins_));
      }
      RETURN_IF_ERROR(CheckBuckets(path + ".buckets", arm.buckets()));
      RETURN_IF_ERROR(CheckRing(arm.ring(), path + ".ring", origins_));
      RETURN_IF_ERROR(CheckWire(arm, path, origins_));
      if (!arm.has_local()) {
        const Cluster cluster = ResolveCluster(experiment_, arm);
        RETURN_IF_ERROR(
            CheckRingOrder(experiment_, arm.name(), cluster.workers(), origins_));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckMode(const std::string& path, const Arm& arm) const {
    if (arm.mode_case() == Arm::MODE_NOT_SET) {
      return Wrong(path, "has no mode", Members(arm, "mode"));
    }
    return absl::OkStatus();
  }

  absl::Status CheckArmCluster(const std::string& path, const Arm& arm) const {
    const std::string own_workers = path + ".cluster.workers";
    const std::string own_servers = path + ".cluster.servers";
    if (!arm.has_parameter_server() && arm.cluster().servers() != 0) {
      return Wrong(
          own_servers,
          absl::StrCat(arm.has_ring() ? "ring" : "local", " arms have no servers"),
          "leaving it out");
    }
    if (arm.has_local() && arm.cluster().workers() > 1) {
      return Wrong(own_workers, "local arms have one worker", "1, or leaving it out");
    }
    RETURN_IF_ERROR(CheckCount(own_workers, arm.cluster().workers(), 1));
    RETURN_IF_ERROR(CheckCount(own_servers, arm.cluster().servers(),
                               arm.has_parameter_server() ? 1 : 0));

    const Cluster cluster = ResolveCluster(experiment_, arm);
    const std::string range = absl::StrCat("1 to ", kMostProcesses);
    if (cluster.workers() == 0) return Missing("cluster.workers", range);
    if (arm.has_parameter_server() && cluster.servers() == 0) {
      return Wrong("cluster.servers",
                   absl::StrCat(origins_.Has("cluster.servers") ? "is 0" : "missing",
                                ", and arm ", Quoted(arm.name()), " needs servers"),
                   range);
    }
    const int64_t batch = experiment_.training().global_batch();
    if (batch % cluster.workers() == 0) {
      return CheckStepsOfArm(experiment_, arm, cluster.workers(), origins_);
    }
    const int64_t below = batch / cluster.workers() * cluster.workers();
    return Wrong("training.global_batch",
                 absl::StrCat(batch, " samples cannot be divided among the ",
                              cluster.workers(), " workers of arm ", Quoted(arm.name())),
                 absl::StrCat("multiples of ", cluster.workers(), ", the nearest are ",
                              below > 0 ? absl::StrCat(below, " and ") : "",
                              below + cluster.workers()));
  }

  // Hosts are checked once for all arms that are on them.
  absl::Status CheckArmsHosts() const {
    struct Users {
      Hosts hosts;
      int64_t workers = 0;
      int64_t servers = 0;
    };
    std::map<std::string, Users> users;  // By the path of the hosts.
    if (experiment_.cluster().has_hosts()) {
      users["cluster.hosts"].hosts = experiment_.cluster().hosts();
    }
    for (int i = 0; i < experiment_.arms_size(); ++i) {
      const Arm& arm = experiment_.arms(i);
      const Cluster cluster = ResolveCluster(experiment_, arm);
      if (!cluster.has_hosts()) continue;
      const std::string path = arm.cluster().has_hosts()
                                   ? absl::StrCat("arms[", i, "].cluster.hosts")
                                   : "cluster.hosts";
      Users& of = users[path];
      of.hosts = cluster.hosts();
      of.workers = std::max(of.workers, cluster.workers());
      of.servers = std::max(of.servers, cluster.servers());
      const bool colocated = cluster.hosts().colocated_servers();
      if (colocated && cluster.servers() > cluster.workers()) {
        return Wrong(
            path + ".colocated_servers",
            absl::StrCat("arm ", Quoted(arm.name()), " has ", cluster.servers(),
                         " servers for the hosts of ", cluster.workers(), " workers"),
            "at most as many servers as workers");
      }
      const int64_t hosts = cluster.workers() + (colocated ? 0 : cluster.servers());
      if (hosts > kMostHosts) {
        return Wrong(path,
                     absl::StrCat("arm ", Quoted(arm.name()), " has ", hosts,
                                  colocated ? " workers" : " processes",
                                  ", each on a host of its own"),
                     absl::StrCat("at most ", kMostHosts));
      }
      if (arm.ring().transport() == RingMode::SHARED_MEMORY) {
        return Wrong(absl::StrCat("arms[", i, "].ring.transport"),
                     "SHARED_MEMORY is for processes of one host, and cluster.hosts "
                     "gives each its own",
                     "TCP, GRPC");
      }
    }
    for (const auto& [path, of] : users) {
      RETURN_IF_ERROR(CheckHosts(of.hosts, of.workers, of.servers,
                                 SettingsOf(experiment_.liveness()).stall, path,
                                 origins_));
    }
    return absl::OkStatus();
  }

  // How many ranks all arms have. A slow rank that an arm lacks would make the arms
  // incomparable without a word. Local arms are the exception: they are the reference,
  // however many workers the others have.
  int64_t CommonRanks() const {
    int64_t ranks = 0;
    for (const Arm& arm : experiment_.arms()) {
      const int64_t workers = ResolveCluster(experiment_, arm).workers();
      if (!arm.has_local()) ranks = ranks == 0 ? workers : std::min(ranks, workers);
    }
    return std::max<int64_t>(ranks, 1);
  }

  absl::Status CheckInject() const {
    const int64_t ranks = CommonRanks();
    std::set<int64_t> slow, stalled;
    for (int i = 0; i < experiment_.inject().slow_worker_size(); ++i) {
      const SlowWorker& worker = experiment_.inject().slow_worker(i);
      const std::string path = absl::StrCat("inject.slow_worker[", i, "]");
      RETURN_IF_ERROR(CheckInjectedRank(path, worker.rank(), ranks, &slow));
      if (!(worker.factor() >= 1 && std::isfinite(worker.factor()))) {
        return WrongOrMissing(path + ".factor", worker.factor(),
                              "a finite number of at least 1");
      }
    }
    for (int i = 0; i < experiment_.inject().stall_worker_size(); ++i) {
      const StallWorker& worker = experiment_.inject().stall_worker(i);
      const std::string path = absl::StrCat("inject.stall_worker[", i, "]");
      RETURN_IF_ERROR(CheckInjectedRank(path, worker.rank(), ranks, &stalled));
      RETURN_IF_ERROR(CheckAtLeast(path + ".step", worker.step(), 0));
    }
    return CheckFlips(experiment_, ranks, origins_);
  }

  absl::Status CheckInjectedRank(const std::string& path, int64_t rank, int64_t ranks,
                                 std::set<int64_t>* seen) const {
    if (rank < 0 || rank >= ranks) {
      return Wrong(path + ".rank", absl::StrCat("is ", rank),
                   absl::StrCat("0 to ", ranks - 1, ", the ranks that all arms have"));
    }
    if (!seen->insert(rank).second) {
      return Wrong(path + ".rank", absl::StrCat("rank ", rank, " is named twice"),
                   "each rank once");
    }
    return absl::OkStatus();
  }

  const Experiment& experiment_;
  const FieldOrigins& origins_;
};

}  // namespace

Cluster ResolveCluster(const Experiment& experiment, const Arm& arm) {
  Cluster cluster = experiment.cluster();
  if (arm.cluster().workers() != 0) cluster.set_workers(arm.cluster().workers());
  if (arm.cluster().servers() != 0) cluster.set_servers(arm.cluster().servers());
  if (arm.cluster().has_hosts()) *cluster.mutable_hosts() = arm.cluster().hosts();
  if (!arm.has_parameter_server()) cluster.set_servers(0);
  if (arm.has_local()) cluster.set_workers(1);
  return cluster;
}

absl::Status CheckExperiment(const Experiment& experiment, const FieldOrigins& origins) {
  return Checker(experiment, origins).Check();
}

}  // namespace psring
