#include "experiments/environment.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/cuda/cuda_support.h"
#include "experiments/text.h"
#include "google/protobuf/stubs/common.h"
#include "grpcpp/grpcpp.h"
#include "nlohmann/json.hpp"
#include "oneapi/dnnl/dnnl.hpp"
#include "worker/data_set.h"

namespace psring {
namespace {

// The value of the first line "KEY : VALUE" of a file under /proc, or "unknown".
std::string ProcValue(const char* path, absl::string_view key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    absl::string_view rest = line;
    if (!absl::ConsumePrefix(&rest, key)) continue;
    const size_t colon = rest.find(':');
    if (colon == absl::string_view::npos) continue;
    return std::string(absl::StripAsciiWhitespace(rest.substr(colon + 1)));
  }
  return "unknown";
}

std::string FirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? line : "unknown";
}

std::string Kernel() {
  utsname name;
  if (uname(&name) != 0) return "unknown";
  return absl::StrCat(name.sysname, " ", name.release, " ", name.machine);
}

std::string OneDnnVersion() {
  const dnnl_version_t* version = dnnl_version();
  return absl::StrFormat("%d.%d.%d", version->major, version->minor, version->patch);
}

std::string DataSetFound() {
  const auto shape = ReadDataSetShape(kFashionMnistDirectory);
  if (!shape.ok()) return std::string(shape.status().message());
  return absl::StrCat(kFashionMnistDirectory, " (", WithThousands(shape->train_count),
                      " training and ", WithThousands(shape->test_count),
                      " test images)");
}

}  // namespace

Environment DescribeHost() {
  return {
      {"processor", ProcValue("/proc/cpuinfo", "model name")},
      {"cores", absl::StrCat(std::thread::hardware_concurrency())},
      {"memory", ProcValue("/proc/meminfo", "MemTotal")},
      {"kernel", Kernel()},
      {"congestion control", FirstLine("/proc/sys/net/ipv4/tcp_congestion_control")},
      {"compiler", absl::StrCat("g++ ", __VERSION__)},
  };
}

std::string LoadAverage() { return FirstLine("/proc/loadavg"); }

Environment DescribeMachine() {
  Environment environment = DescribeHost();
  const Environment rest = {
      {"load", LoadAverage()},
      {"gRPC", grpc::Version()},
      {"protobuf", google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION)},
      {"oneDNN", OneDnnVersion()},
      {"compute threads per worker", "1"},
      {"CUDA", DescribeCuda(BuiltWithCuda(), CudaDriver())},
      {"Fashion-MNIST", DataSetFound()},
  };
  environment.insert(environment.end(), rest.begin(), rest.end());
  return environment;
}

std::string DescribeCuda(const CudaBuild& build, const std::string& driver) {
  if (!build.missing.empty()) return absl::StrCat("not built in: ", build.missing);
  return absl::StrCat(
      build.toolkit, " built in, ",
      driver.empty() ? "no driver" : absl::StrCat("driver for CUDA ", driver));
}

std::string EnvironmentText(const Environment& environment) {
  std::string text;
  for (const auto& [name, value] : environment) {
    absl::StrAppend(&text, absl::StrFormat("  %-27s %s\n", name, value));
  }
  return text;
}

std::string EnvironmentJson(const Environment& environment) {
  nlohmann::ordered_json json;
  for (const auto& [name, value] : environment) json[name] = value;
  return json.dump(2) + "\n";
}

}  // namespace psring
