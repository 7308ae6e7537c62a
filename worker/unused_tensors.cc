#include "worker/unused_tensors.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace psring {

void UnusedTensors::Take(int64_t pass, std::span<const int> unused) {
  if (pass == 0) std::fill(unused_passes_.begin(), unused_passes_.end(), 0);
  for (const int tensor : unused) ++unused_passes_[tensor];
}

absl::Status UnusedTensors::Check(int rank, int64_t step) const {
  std::vector<std::string> names;
  for (size_t tensor = 0; tensor < unused_passes_.size(); ++tensor) {
    if (unused_passes_[tensor] == passes_) {
      names.push_back(layout_->tensors()[tensor].name);
    }
  }
  if (names.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("rank ", rank, " has made no use of ", absl::StrJoin(names, ", "),
                   " in step ", step, ", and training.unused_parameters is ERROR"));
}

}  // namespace psring
