#include "experiments/build_check.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "experiments/child_processes.h"
#include "experiments/device_check.h"
#include "experiments/report/assets.h"
#include "google/protobuf/stubs/common.h"
#include "grpcpp/grpcpp.h"
#include "oneapi/dnnl/dnnl.hpp"
#include "sqlite3.h"

namespace psring {
namespace {

std::string Yes(bool yes) { return yes ? "yes" : "no"; }

// Where a library was not there, an empty file is in its program's place
// (third_party/peer_libraries.bzl).
bool IsBuilt(const std::string& program) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(BuiltProgram(program), error);
  return !error && bytes > 0;
}

std::string OneDnn(int major, int minor, int patch) {
  return absl::StrCat(major, ".", minor, ".", patch);
}

std::string DescribeLibrary(const FoundLibrary& library) {
  if (!library.problem.empty()) return absl::StrCat("no: ", library.problem);
  return absl::StrCat(library.version, ", ", library.path);
}

std::string DescribeGpus(const CudaMachine& machine) {
  if (machine.gpus.empty()) {
    return machine.no_gpus.empty() ? "none" : absl::StrCat("none: ", machine.no_gpus);
  }
  std::vector<std::string> gpus;
  for (const Gpu& gpu : machine.gpus) {
    gpus.push_back(absl::StrFormat("%s (%d.%d, %d MiB)", gpu.name, gpu.major, gpu.minor,
                                   gpu.memory_bytes >> 20));
  }
  return absl::StrCat(gpus.size(), ": ", absl::StrJoin(gpus, ", "));
}

}  // namespace

std::vector<BuildPart> CheckBuild() {
  const dnnl_version_t* const one_dnn = dnnl_version();
  const absl::string_view no_charts = WhyNoCharts();
  std::vector<BuildPart> parts = {
      {"compiler", absl::StrCat("g++ ", __VERSION__), ""},
      {"gRPC", GRPC_CPP_VERSION_STRING, grpc::Version()},
      {"protobuf", google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION),
       ""},
      {"oneDNN", OneDnn(DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH),
       OneDnn(one_dnn->major, one_dnn->minor, one_dnn->patch)},
      {"SQLite", SQLITE_VERSION, sqlite3_libversion()},
      {"charts", no_charts.empty() ? "yes" : absl::StrCat("no: ", no_charts), ""},
      {"Gloo", Yes(IsBuilt("experiments/peers/gloo_rank")), ""},
      {"Open MPI", Yes(IsBuilt("experiments/peers/open_mpi_rank")), ""},
  };
  const std::vector<BuildPart> cuda = CudaParts(BuiltWithCuda(), FindCuda());
  parts.insert(parts.end(), cuda.begin(), cuda.end());
  return parts;
}

std::vector<BuildPart> CudaParts(const CudaBuild& build, const CudaMachine& machine) {
  if (!build.missing.empty()) {
    return {{"CUDA", absl::StrCat("no: ", build.missing), ""}};
  }
  const std::string driver =
      machine.driver.empty() ? "none" : absl::StrCat("for CUDA ", machine.driver);
  return {
      {"CUDA", absl::StrCat(build.toolkit, ": ", build.architectures), ""},
      {"NVIDIA driver", "", driver},
      {"GPUs", "", DescribeGpus(machine)},
      {"cuBLAS", build.cublas, DescribeLibrary(machine.cublas)},
      {"NCCL", build.nccl, DescribeLibrary(machine.nccl)},
      {"cuDNN", "not used", DescribeLibrary(machine.cudnn)},
      {"training on GPUs", Yes(kTrainsOnGpus), ""},
  };
}

std::string BuildTable(const std::vector<BuildPart>& parts) {
  size_t name = 0, built_with = 0;
  std::vector<BuildPart> lines = {{"part", "built with", "found here"}};
  lines.insert(lines.end(), parts.begin(), parts.end());
  for (const BuildPart& part : lines) {
    name = std::max(name, part.name.size());
    // What is not built in is not looked for: its reason may take the whole line.
    if (!part.found.empty()) built_with = std::max(built_with, part.built_with.size());
  }
  std::string table;
  for (const BuildPart& part : lines) {
    std::string line =
        absl::StrFormat("  %-*s  %-*s  %s", static_cast<int>(name), part.name,
                        static_cast<int>(built_with), part.built_with, part.found);
    absl::StripTrailingAsciiWhitespace(&line);
    absl::StrAppend(&table, line, "\n");
  }
  return table;
}

}  // namespace psring
