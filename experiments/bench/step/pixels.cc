#include "experiments/bench/step/pixels.h"

#include <zlib.h>

#include <algorithm>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace psring {
namespace {

constexpr int64_t kClasses = 10;
constexpr int64_t kTestSamples = 2 * kClasses;
constexpr int64_t kPiece = 1 << 20;  // zlib counts in unsigned int.

void AppendWord(uint32_t value, std::vector<uint8_t>* bytes) {
  for (const int shift : {24, 16, 8, 0}) {
    bytes->push_back(static_cast<uint8_t>(value >> shift));
  }
}

absl::Status Write(const std::string& path, const std::vector<uint8_t>& bytes) {
  const gzFile file = gzopen(path.c_str(), "wb1");
  bool good = file != nullptr;
  const auto size = static_cast<int64_t>(bytes.size());
  for (int64_t begin = 0; good && begin < size; begin += kPiece) {
    const auto piece = static_cast<unsigned>(std::min(kPiece, size - begin));
    good = gzwrite(file, bytes.data() + begin, piece) == static_cast<int>(piece);
  }
  if (file != nullptr && gzclose(file) != Z_OK) good = false;
  return good ? absl::OkStatus()
              : absl::InternalError(absl::StrCat("cannot write ", path));
}

// Sample i has the pattern of class i modulo 10. Only the generator's own numbers are
// used, which the standard fixes, unlike its distributions.
absl::Status WriteHalf(const std::string& folder, const std::string& half,
                       int64_t features, int64_t samples) {
  std::vector<uint8_t> patterns(kClasses * features);
  std::mt19937 of_patterns(1);
  for (uint8_t& pixel : patterns) pixel = static_cast<uint8_t>(of_patterns() % 192);

  std::vector<uint8_t> images;
  AppendWord(0x803, &images);
  AppendWord(static_cast<uint32_t>(samples), &images);
  AppendWord(1, &images);
  AppendWord(static_cast<uint32_t>(features), &images);
  std::vector<uint8_t> labels;
  AppendWord(0x801, &labels);
  AppendWord(static_cast<uint32_t>(samples), &labels);
  std::mt19937 noise(static_cast<uint32_t>(samples));
  for (int64_t sample = 0; sample < samples; ++sample) {
    const int64_t pattern = sample % kClasses;
    labels.push_back(
        static_cast<uint8_t>(sample % 4 == 3 ? noise() % kClasses : pattern));
    for (int64_t i = 0; i < features; ++i) {
      images.push_back(
          static_cast<uint8_t>(patterns[pattern * features + i] + noise() % 64));
    }
  }
  RETURN_IF_ERROR(
      Write(absl::StrCat(folder, "/", half, "-images-idx3-ubyte.gz"), images));
  return Write(absl::StrCat(folder, "/", half, "-labels-idx1-ubyte.gz"), labels);
}

}  // namespace

absl::Status WritePixels(const std::string& folder, int64_t features, int64_t samples) {
  RETURN_IF_ERROR(WriteHalf(folder, "train", features, samples));
  return WriteHalf(folder, "t10k", features, kTestSamples);
}

}  // namespace psring
