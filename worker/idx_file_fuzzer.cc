// Input: the content of a file.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/fuzz_util.h"
#include "glog/logging.h"
#include "worker/idx_file.h"

namespace psring {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const MemoryFile file(absl::string_view(reinterpret_cast<const char*>(data), size));
  for (const int dimensions : {1, 3}) {
    const absl::StatusOr<IdxHeader> header = ReadIdxHeader(file.path(), dimensions);
    const absl::StatusOr<IdxFile> whole = ReadIdxFile(file.path(), dimensions);
    if (!whole.ok()) {
      const absl::Status& status = whole.status();
      CHECK(absl::IsInvalidArgument(status)) << status;
      CHECK(absl::StartsWith(status.message(), absl::StrCat(file.path(), ": ")))
          << status;
      CHECK(IsOneLine(status.message())) << status;
      CHECK(header.ok() || header.status() == status)
          << header.status() << "; " << status;
      continue;
    }
    CHECK(header.ok()) << header.status();
    CHECK(header->sizes == whole->header.sizes);
    CHECK_EQ(header->sizes.size(), static_cast<size_t>(dimensions));
    const auto values = static_cast<int64_t>(whole->values.size());
    CHECK_EQ(values, std::accumulate(header->sizes.begin(), header->sizes.end(),
                                     int64_t{1}, std::multiplies<>()));
  }
  return 0;
}

}  // namespace psring
