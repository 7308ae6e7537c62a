#include "experiments/bench/options.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"

namespace psring {
namespace {

constexpr int64_t kMostBytes = int64_t{1} << 40;

}  // namespace

absl::Status CheckChoices(absl::string_view flag, const std::vector<std::string>& values,
                          std::span<const absl::string_view> allowed) {
  for (const std::string& value : values) {
    if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag, " ", value, ": not one of ", absl::StrJoin(allowed, ", ")));
    }
    if (std::count(values.begin(), values.end(), value) > 1) {
      return absl::InvalidArgumentError(absl::StrCat(flag, " names ", value, " twice"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ParseBytes(absl::string_view text) {
  absl::string_view digits = text;
  int64_t unit = 1;
  if (!digits.empty()) {
    switch (digits.back()) {
      case 'k':
      case 'K':
        unit = int64_t{1} << 10;
        break;
      case 'm':
      case 'M':
        unit = int64_t{1} << 20;
        break;
      case 'g':
      case 'G':
        unit = int64_t{1} << 30;
        break;
    }
    if (unit > 1) digits.remove_suffix(1);
  }
  int64_t number = 0;
  if (!std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(digits, &number) || number > kMostBytes / unit) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is not a size: bytes, or a number with K, M or G"));
  }
  return number * unit;
}

absl::StatusOr<std::vector<int64_t>> SizesOf(const RoundOptions& options) {
  ASSIGN_OR_RETURN(const int64_t first, ParseBytes(options.first_size));
  ASSIGN_OR_RETURN(const int64_t last, ParseBytes(options.last_size));
  if (first < int64_t{sizeof(float)} || first % int64_t{sizeof(float)} != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("-b ", options.first_size, ": not a positive multiple of 4 bytes"));
  }
  if (last < first) {
    return absl::InvalidArgumentError(
        absl::StrCat("-e ", options.last_size, " is less than -b ", options.first_size));
  }
  if (options.factor < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("-f ", options.factor, ": at least 2"));
  }
  std::vector<int64_t> sizes;
  for (int64_t size = first; size <= last; size *= options.factor) {
    sizes.push_back(size);
    if (size > last / options.factor) break;  // The next would be beyond, or overflow.
  }
  return sizes;
}

}  // namespace psring
