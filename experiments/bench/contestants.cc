#include "experiments/bench/contestants.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/status_macros.h"
#include "experiments/bench/inputs.h"
#include "experiments/config_text.h"
#include "experiments/ring_config.h"
#include "glog/logging.h"
#include "proto/experiment.pb.h"

namespace psring {
namespace {

constexpr absl::string_view kTransports[] = {"tcp", "shared_memory", "grpc"};
constexpr absl::string_view kAlgorithms[] = {"ring", "halving_doubling", "tree",
                                             "gather_broadcast", "auto"};
constexpr absl::string_view kPeers[] = {"gloo", "openmpi"};

using Values = std::vector<std::string>;

bool Has(const Values& values, absl::string_view value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// Collects the plans of one benchmark.
class Planner {
 public:
  Planner(const BenchOptions& options, int64_t most_bytes, const BenchPrograms& programs,
          const std::string& folder)
      : options_(options),
        most_bytes_(most_bytes),
        programs_(programs),
        folder_(folder) {}

  absl::StatusOr<std::vector<ContestantPlan>> Plan() {
    RETURN_IF_ERROR(Check());
    for (const std::string& transport : options_.transports) {
      if (transport == "shared_memory") {  // Has a way of its own, with a ring's bits.
        AddPsring("ring", transport);
        continue;
      }
      for (const std::string& algorithm : options_.algorithms) {
        AddPsring(algorithm, transport);
      }
    }
    if (Has(options_.transports, "tcp")) {
      AddRanks(Add({"raw", "ring", "tcp"}), programs_.rank, {});
    }
    if (Has(options_.against, "gloo")) RETURN_IF_ERROR(AddGloo());
    if (Has(options_.against, "openmpi")) RETURN_IF_ERROR(AddOpenMpi());
    return std::move(plans_);
  }

 private:
  absl::Status Check() const {
    RETURN_IF_ERROR(CheckChoices("--transport", options_.transports, kTransports));
    RETURN_IF_ERROR(CheckChoices("--algorithm", options_.algorithms, kAlgorithms));
    RETURN_IF_ERROR(CheckChoices("--against", options_.against, kPeers));
    if (options_.ranks < 2 || options_.ranks > kMaxBenchRanks) {
      return absl::InvalidArgumentError(
          absl::StrCat("--ranks ", options_.ranks, ": 2 to ", kMaxBenchRanks));
    }
    if (options_.connections < 1 || options_.connections > 64) {
      return absl::InvalidArgumentError(
          absl::StrCat("--connections ", options_.connections, ": 1 to 64"));
    }
    return absl::OkStatus();
  }

  ContestantPlan& Add(Contestant contestant) {
    ContestantPlan& plan = plans_.emplace_back();
    plan.name = absl::StrCat(contestant.peer, " ", contestant.algorithm, " ",
                             contestant.transport);
    plan.control = absl::StrCat(folder_, "/", plans_.size(), ".socket");
    plan.contestant = std::move(contestant);
    return plan;
  }

  // A process per rank, which gets --control, --rank and --ranks besides `more`.
  void AddRanks(ContestantPlan& plan, const std::string& program, const Values& more) {
    for (int rank = 0; rank < options_.ranks; ++rank) {
      Values arguments = {program,
                          "--control",
                          plan.control,
                          "--rank",
                          absl::StrCat(rank),
                          "--ranks",
                          absl::StrCat(options_.ranks)};
      arguments.insert(arguments.end(), more.begin(), more.end());
      plan.Add(folder_, absl::StrCat("rank ", rank), std::move(arguments));
    }
  }

  // As an arm of psring would have them.
  RingMode SettingsOf(const std::string& algorithm, const std::string& transport) const {
    RingMode settings;
    RingMode::Algorithm algorithm_value;
    RingMode::Transport transport_value;
    CHECK(RingMode::Algorithm_Parse(absl::AsciiStrToUpper(algorithm), &algorithm_value) &&
          RingMode::Transport_Parse(absl::AsciiStrToUpper(transport), &transport_value));
    settings.set_algorithm(algorithm_value);
    settings.set_transport(transport_value);
    settings.set_connections(options_.connections);
    settings.set_spin(options_.spin);
    FillRingDefaults(options_.ranks, &settings);
    return settings;
  }

  void AddPsring(const std::string& algorithm, const std::string& transport) {
    AddRanks(Add({"psring", algorithm, transport}), programs_.rank,
             {"--ring", OnOneLine(SettingsOf(algorithm, transport)), "--most-count",
              absl::StrCat(most_bytes_ / int64_t{sizeof(float)})});
  }

  absl::Status AddGloo() {
    if (!Has(options_.transports, "tcp")) {
      return absl::InvalidArgumentError(
          "--against gloo: Gloo has TCP only, so it needs --transport tcp");
    }
    RETURN_IF_ERROR(CheckBuilt("gloo", programs_.gloo, "libgloo-dev"));
    for (const char* algorithm : {"ring", "ring_chunked", "halving_doubling", "bcube"}) {
      ContestantPlan& plan = Add({"gloo", algorithm, "tcp"});
      AddRanks(plan, programs_.gloo,
               {"--algorithm", algorithm, "--store", plan.control + ".store"});
    }
    return absl::OkStatus();
  }

  absl::Status AddOpenMpi() {
    if (!Has(options_.transports, "tcp") && !Has(options_.transports, "shared_memory")) {
      return absl::InvalidArgumentError(
          "--against openmpi needs --transport tcp, shared_memory or both");
    }
    RETURN_IF_ERROR(
        CheckBuilt("openmpi", programs_.open_mpi, "libopenmpi-dev and openmpi-bin"));
    RETURN_IF_ERROR(
        CheckBuilt("openmpi", programs_.mpirun, "libopenmpi-dev and openmpi-bin"));
    for (const std::string& transport : options_.transports) {
      if (transport == "grpc") continue;
      ContestantPlan& plan = Add({"openmpi", "default", transport});
      Values arguments = {programs_.mpirun, "--allow-run-as-root", "--oversubscribe",
                          "-np", absl::StrCat(options_.ranks)};
      if (transport == "tcp") {
        // Over the interface that everyone else uses; it leaves that one out by default.
        for (const char* argument :
             {"--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"}) {
          arguments.push_back(argument);
        }
      }
      arguments.insert(arguments.end(), {programs_.open_mpi, "--control", plan.control});
      plan.Add(folder_, "", std::move(arguments));
    }
    return absl::OkStatus();
  }

  static absl::Status CheckBuilt(const char* peer, const std::string& program,
                                 const char* packages) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(program, error);
    if (!error && bytes > 0) return absl::OkStatus();
    return WithExitCode(
        absl::FailedPreconditionError(absl::StrCat(
            "--against ", peer, ": psring was built without it; install ", packages,
            " (third_party/optional_packages.txt) and start psring again")),
        ExitCode::kSkipped);
  }

  const BenchOptions& options_;
  const int64_t most_bytes_;
  const BenchPrograms& programs_;
  const std::string& folder_;
  std::vector<ContestantPlan> plans_;
};

}  // namespace

absl::StatusOr<std::vector<ContestantPlan>> PlanContestants(const BenchOptions& options,
                                                            int64_t most_bytes,
                                                            const BenchPrograms& programs,
                                                            const std::string& folder) {
  return Planner(options, most_bytes, programs, folder).Plan();
}

}  // namespace psring
