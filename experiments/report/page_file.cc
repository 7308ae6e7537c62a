#include "experiments/report/page_file.h"

#include <filesystem>
#include <fstream>
#include <system_error>

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
  std::error_code error;
  {
    std::ofstream file(beside, std::ios::binary);
    file << page;
    file.close();
    if (!file) {
      std::filesystem::remove(beside, error);
      return absl::InvalidArgumentError(absl::StrCat(
          "cannot write ", path, "; allowed: a file in a folder that can be written"));
    }
  }
  std::filesystem::rename(beside, path, error);
  if (!error) return absl::OkStatus();
  const std::string why = error.message();
  std::filesystem::remove(beside, error);
  return absl::InvalidArgumentError(absl::StrCat("cannot write ", path, ": ", why));
}

}  // namespace psring
