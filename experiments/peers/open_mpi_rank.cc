// One rank of Open MPI in a benchmark; psring starts mpirun, and that this.
#include <iostream>
#include <limits>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/address_sanitizer.h"
#include "common/errors.h"
#include "experiments/bench/rank.h"
#include "mpi.h"

#ifdef PSRING_ADDRESS_SANITIZER
// Open MPI never frees some of its memory, and has unloaded the plugins that made it by
// the time that leaks are looked for, so that they cannot be told by their names.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }
#endif

namespace psring {
namespace {

// Errors of MPI end all ranks by themselves, its default.
class OpenMpiRank final : public BenchRank {
 public:
  std::string version() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);
    // "Open MPI v4.1.4, package: ..., ident: ..."
    const std::vector<std::string> parts = absl::StrSplit(std::string(text, length), ',');
    return parts[0];
  }

  absl::Status Connect(const std::vector<std::string>&) override {
    MPI_Barrier(MPI_COMM_WORLD);  // Makes the connections that it needs on first use.
    return absl::OkStatus();
  }

  absl::StatusOr<std::span<float>> Prepare(int64_t count) override {
    if (count > std::numeric_limits<int>::max()) {
      return absl::InvalidArgumentError("MPI counts in int: 2^31 - 1 elements at most");
    }
    values_.resize(count);
    return values_;
  }

  absl::Status AllReduce() override {
    MPI_Allreduce(MPI_IN_PLACE, values_.data(), static_cast<int>(values_.size()),
                  MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return absl::OkStatus();
  }

 private:
  std::vector<float> values_;
};

int Main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  CLI::App app("One rank of Open MPI in a benchmark; started by psring through mpirun.");
  std::string control;
  app.add_option("--control", control)->required();
  CLI11_PARSE(app, argc, argv);

  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  OpenMpiRank subject;
  const absl::Status status = ServeBench(control, rank, ranks, subject);
  if (!status.ok()) {
    std::cerr << "open_mpi_rank: " << status.message() << std::endl;
    MPI_Abort(MPI_COMM_WORLD, static_cast<int>(ExitCodeOf(status)));
  }
  MPI_Finalize();
  return 0;
}

}  // namespace
}  // namespace psring

int main(int argc, char** argv) { return psring::Main(argc, argv); }
