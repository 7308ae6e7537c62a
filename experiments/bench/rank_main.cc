// One rank of psring's own contestants in a benchmark; psring starts it.
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "common/errors.h"
#include "experiments/bench/psring_rank.h"
#include "experiments/bench/rank.h"
#include "experiments/bench/raw_rank.h"
#include "glog/logging.h"

namespace psring {
namespace {

int Main(int argc, char** argv) {
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);

  CLI::App app("One rank of psring's contestants in a benchmark; started by psring.");
  std::string control;
  bool raw = false;
  PsringRankOptions options;
  app.add_option("--control", control)->required();
  app.add_option("--rank", options.rank)->required();
  app.add_option("--ranks", options.ranks)->required();
  app.add_flag("--raw", raw);
  CLI11_PARSE(app, argc, argv);

  const std::unique_ptr<BenchRank> subject =
      raw ? MakeRawRank(options.rank, options.ranks) : MakePsringRank(options);
  const absl::Status status = ServeBench(control, options.rank, options.ranks, *subject);
  if (!status.ok()) std::cerr << "bench_rank: " << status.message() << std::endl;
  return static_cast<int>(ExitCodeOf(status));
}

}  // namespace
}  // namespace psring

int main(int argc, char** argv) { return psring::Main(argc, argv); }
