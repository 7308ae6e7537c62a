// One process of a contestant of `psring bench push-pull`; psring starts it.
#include <iostream>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "common/allocator.h"
#include "common/errors.h"
#include "experiments/bench/push_pull/ends.h"
#include "experiments/bench/push_pull/process.h"
#include "glog/logging.h"
#include "google/protobuf/text_format.h"
#include "grpcpp/grpcpp.h"

namespace psring {
namespace {

std::unique_ptr<PushPullServer> MakeServer(const std::string& contestant,
                                           const PushPullEnds& ends, int server) {
  if (contestant == "psring") return MakePsringServer(ends, server);
  return contestant == "grpc" ? MakeGrpcServer() : MakeTcpServer(server);
}

std::unique_ptr<PushPullWorker> MakeWorker(const std::string& contestant,
                                           const PushPullEnds& ends, int worker) {
  if (contestant == "psring") return MakePsringWorker(ends, worker);
  return contestant == "grpc" ? MakeGrpcWorker() : MakeTcpWorker();
}

int Main(int argc, char** argv) {
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);
  // As servers and workers do, which move what gRPC allocates.
  TuneAllocator();

  CLI::App app("A process of psring bench push-pull; started by psring.");
  std::string control;
  std::string contestant;
  std::string settings;
  int rank = 0;
  PushPullEnds ends;
  app.add_option("--control", control)->required();
  app.add_option("--contestant", contestant)
      ->required()
      ->check(CLI::IsMember({"psring", "grpc", "tcp"}));
  app.add_option("--rank", rank)->required();
  app.add_option("--job", settings, "PushPullJob in text format")
      ->required()
      ->check([&ends](const std::string& text) {
        return google::protobuf::TextFormat::ParseFromString(text, &ends.settings)
                   ? ""
                   : absl::StrCat("\"", text, "\" is no PushPullJob in text format");
      });
  CLI11_PARSE(app, argc, argv);
  ends.job = control;

  const std::string version = contestant == "tcp" ? "" : grpc::Version();
  const int servers = ends.settings.servers();
  absl::Status status;
  if (rank < servers) {
    const auto end = MakeServer(contestant, ends, rank);
    status = ServePushPull(control, ends.settings, rank, version, *end);
  } else {
    const auto end = MakeWorker(contestant, ends, rank - servers);
    status = WorkPushPull(control, ends.settings, rank - servers, version, *end);
  }
  if (!status.ok()) std::cerr << "push_pull_process: " << status.message() << std::endl;
  return static_cast<int>(ExitCodeOf(status));
}

}  // namespace
}  // namespace psring

int main(int argc, char** argv) { return psring::Main(argc, argv); }
