// Input: the content of a configuration file, then overrides, each on a line that starts
// with "--set ".
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/fuzz_util.h"
#include "experiments/config.h"
#include "glog/logging.h"

namespace psring {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int64_t kTrainCount = 60000;
  const absl::string_view input(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> parts =
      absl::StrSplit(absl::StripSuffix(input, "\n"), "\n--set ");
  const MemoryFile file(parts[0]);
  const absl::StatusOr<Experiment> experiment =
      LoadExperiment(file.path(), {parts.begin() + 1, parts.end()});
  if (!experiment.ok()) {
    CHECK(absl::IsInvalidArgument(experiment.status())) << experiment.status();
    CHECK(IsOneLine(experiment.status().message())) << experiment.status();
    return 0;
  }

  // What is printed reads back as the same, and so does what is sent to the workers.
  const std::string bytes = experiment->SerializeAsString();
  const MemoryFile printed(PrintExperiment(*experiment));
  const absl::StatusOr<Experiment> again = LoadExperiment(printed.path(), {});
  CHECK(again.ok()) << again.status();
  CHECK(again->SerializeAsString() == bytes) << PrintExperiment(*again);
  CHECK(Experiment().ParseFromString(bytes));

  for (const Arm& arm : experiment->arms()) {
    const absl::StatusOr<JobSpec> job = ResolveArm(*experiment, arm, kTrainCount);
    if (!job.ok()) {
      CHECK(absl::IsInvalidArgument(job.status())) << job.status();
      CHECK(IsOneLine(job.status().message())) << job.status();
      continue;
    }
    CHECK_GE(job->steps(), 1);
    CHECK_GE(job->workers(), 1);
    CHECK_GE(job->servers(), arm.has_parameter_server() ? 1 : 0);
    CHECK_EQ(experiment->training().global_batch() % job->workers(), 0);
  }
  return 0;
}

}  // namespace psring
