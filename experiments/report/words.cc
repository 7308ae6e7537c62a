#include "experiments/report/words.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiments/text.h"

namespace psring {
namespace {

// Three digits, as many of them behind the point as that leaves.
std::string ThreeDigits(double number) {
  const double size = std::abs(number);
  const int behind = size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
  return absl::StrFormat("%.*f", behind, number);
}

}  // namespace

std::string RoughBytes(double bytes) {
  for (const char* const unit : {"bytes", "kB", "MB", "GB"}) {
    if (bytes < 999.5) {
      return absl::StrCat(
          unit[0] == 'b' ? absl::StrFormat("%.0f", bytes) : ThreeDigits(bytes), " ",
          unit);
    }
    bytes /= 1000;
  }
  return absl::StrCat(ThreeDigits(bytes), " TB");
}

std::string RoughSeconds(double seconds) {
  if (seconds < 0.9995e-3) return absl::StrCat(ThreeDigits(seconds * 1e6), " us");
  if (seconds < 0.9995) return absl::StrCat(ThreeDigits(seconds * 1e3), " ms");
  return absl::StrCat(ThreeDigits(seconds), " s");
}

std::string Times(double ratio) {
  return absl::StrFormat("%.*f", ratio < 1.995 ? 2 : ratio < 9.95 ? 1 : 0, ratio);
}

std::string RoughNumber(double number) {
  if (std::abs(number) < 99.5) return ThreeDigits(number);
  return WithThousands(static_cast<int64_t>(std::llround(number)));
}

}  // namespace psring
