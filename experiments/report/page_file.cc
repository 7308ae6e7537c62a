#include "experiments/report/page_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "experiments/report/assets.h"

namespace psring {

absl::Status CheckChartLibrary(absl::string_view command, absl::string_view otherwise) {
  if (!ChartLibrary().empty()) return absl::OkStatus();
  return WithExitCode(
      absl::UnimplementedError(absl::StrCat(
          command, ": psring was built without the library that draws charts, because ",
          WhyNoCharts(), "; ", otherwise)),
      ExitCode::kSkipped);
}

PageAssets CarriedAssets() {
  return {.style = PageStyle(),
          .script = PageScript(),
          .chart_library = ChartLibrary(),
          .licences = Licences()};
}

absl::Status WritePage(const std::string& path, absl::string_view page) {
  const std::string beside = absl::StrCat(path, ".new");
  errno = 0;
  std::ofstream file(beside, std::ios::binary);
  if (!file.is_open()) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write ", path, ": ", strerror(errno),
                     "; allowed: a file in a folder that can be written"));
  }
  file << page;
  file.close();
  if (file && std::rename(beside.c_str(), path.c_str()) == 0) return absl::OkStatus();
  const int why = errno;
  std::remove(beside.c_str());
  return absl::Status(
      why == EISDIR ? absl::StatusCode::kInvalidArgument : absl::StatusCode::kInternal,
      absl::StrCat("cannot write ", path, ": ", strerror(why)));
}

}  // namespace psring
