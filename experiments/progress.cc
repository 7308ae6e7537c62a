#include "experiments/progress.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "experiments/text.h"

namespace psring {

int64_t SamplesPerSecond(const ArmProgress& progress) {
  const double seconds = absl::ToDoubleSeconds(progress.trained);
  return seconds > 0
             ? static_cast<int64_t>(static_cast<double>(progress.samples) / seconds)
             : 0;
}

double SecondsLeft(int64_t steps, const ArmProgress& progress) {
  const int64_t made = progress.first_step + progress.steps_done;
  return absl::ToDoubleSeconds(progress.trained) *
         static_cast<double>(std::max<int64_t>(0, steps - made)) /
         static_cast<double>(progress.steps_done);
}

std::string ProgressLine(const std::string& arm, int64_t steps,
                         const ArmProgress& progress) {
  if (progress.steps_done == 0) return absl::StrFormat("%s: starting", arm);
  const auto left = static_cast<int64_t>(SecondsLeft(steps, progress));
  return absl::StrFormat(
      "%s: step %s of %s,%s %s samples/s, %d:%02d left", arm,
      WithThousands(progress.first_step + progress.steps_done), WithThousands(steps),
      progress.loss ? absl::StrFormat(" loss %.4f,", *progress.loss) : "",
      WithThousands(SamplesPerSecond(progress)), left / 60, left % 60);
}

}  // namespace psring
