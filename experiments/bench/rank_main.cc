// One rank of psring's own contestants in a benchmark; psring starts it.
#include <iostream>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "common/allocator.h"
#include "common/errors.h"
#include "common/status_macros.h"
#include "experiments/bench/psring_rank.h"
#include "experiments/bench/rank.h"
#include "experiments/bench/raw_rank.h"
#include "glog/logging.h"
#include "google/protobuf/text_format.h"

namespace psring {
namespace {

absl::Status Serve(const std::string& control, const std::string& settings,
                   PsringRankOptions options) {
  std::unique_ptr<BenchRank> subject;
  if (settings.empty()) {
    subject = MakeRawRank(options.rank, options.ranks);
  } else {
    if (!google::protobuf::TextFormat::ParseFromString(settings, &options.settings)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--ring \"", settings, "\": not a RingMode in text format"));
    }
    ASSIGN_OR_RETURN(subject, MakePsringRank(options));
  }
  return ServeBench(control, options.rank, options.ranks, *subject);
}

int Main(int argc, char** argv) {
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);
  // As a worker, which moves what gRPC allocates.
  TuneAllocator();

  CLI::App app("One rank of psring's contestants in a benchmark; started by psring.");
  std::string control;
  std::string settings;
  PsringRankOptions options;
  app.add_option("--control", control)->required();
  app.add_option("--rank", options.rank)->required();
  app.add_option("--ranks", options.ranks)->required();
  app.add_option("--ring", settings, "RingMode in text format; without it bare sockets");
  app.add_option("--most-count", options.most_count);
  CLI11_PARSE(app, argc, argv);
  options.job = control;

  const absl::Status status = Serve(control, settings, options);
  if (!status.ok()) std::cerr << "bench_rank: " << status.message() << std::endl;
  return static_cast<int>(ExitCodeOf(status));
}

}  // namespace
}  // namespace psring

int main(int argc, char** argv) { return psring::Main(argc, argv); }
