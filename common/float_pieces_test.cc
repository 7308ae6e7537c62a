#include "common/float_pieces.h"

#include <cstring>
#include <vector>

#include "common/arithmetic.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

std::vector<float> Values(int64_t count) {
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = 1.0f / static_cast<float>(3 + i);
  return values;
}

// Cuts the floats' bytes into pieces of `size` bytes, each in memory of its own that
// begins `shift` bytes behind an aligned address; every third cut has an empty piece.
struct Cut {
  Cut(const std::vector<float>& values, size_t size, size_t shift) {
    const Bytes bytes = std::as_bytes(std::span(values));
    std::vector<Bytes> pieces;
    for (size_t begin = 0; begin < bytes.size(); begin += size) {
      const Bytes piece = bytes.subspan(begin, std::min(size, bytes.size() - begin));
      auto& copy = memory.emplace_back(shift);
      copy.insert(copy.end(), piece.begin(), piece.end());
    }
    for (const auto& copy : memory) {
      if (pieces.size() % 3 == 0) pieces.push_back({});
      pieces.push_back(Bytes(copy).subspan(shift));
    }
    floats = FloatPieces(std::move(pieces));
  }
  std::vector<std::vector<std::byte>> memory;
  FloatPieces floats;
};

TEST(FloatPiecesTest, AnyCutCopiesAndReadsAsTheWhole) {
  for (const int64_t count : {0, 1, 2, 3, 5, 64, 257}) {
    const std::vector<float> values = Values(count);
    for (const size_t size : {1, 2, 3, 4, 5, 7, 8, 9, 61}) {
      for (const size_t shift : {0, 1, 3}) {
        const Cut cut(values, size, shift);
        ASSERT_EQ(cut.floats.count(), count);
        std::vector<float> copied(count);
        cut.floats.CopyTo(copied);
        EXPECT_EQ(copied, values);
        for (const int64_t limit : {1, 3, 1000}) {
          FloatReader reader(cut.floats);
          std::vector<float> read(count);
          for (int64_t done = 0; done < count;) {
            const int64_t ahead = reader.Ahead();
            const Bytes run = reader.Next(limit);
            ASSERT_EQ(run.size(), std::min(ahead, limit) * sizeof(float));
            ASSERT_EQ(run.size() % sizeof(float), 0u);
            ASSERT_LE(run.size(), limit * sizeof(float));
            ASSERT_LE(done * sizeof(float) + run.size(), count * sizeof(float));
            std::memcpy(read.data() + done, run.data(), run.size());
            done += static_cast<int64_t>(run.size() / sizeof(float));
          }
          EXPECT_EQ(read, values) << "pieces of " << size << ", limit " << limit;
        }
      }
    }
  }
}

TEST(FloatPiecesTest, WholeFloatsOfAPieceComeAsOneRunInPlace) {
  const std::vector<float> values = Values(10);
  const FloatPieces floats(values);
  FloatReader reader(floats);
  EXPECT_EQ(reader.Next(4).data(), std::as_bytes(std::span(values)).data());
  EXPECT_EQ(reader.Next(100).size(), 6 * sizeof(float));
}

TEST(FloatPiecesDeathTest, BytesThatAreNoWholeFloatsAreABug) {
  const std::vector<std::byte> bytes(5);
  EXPECT_DEATH(FloatPieces(std::vector<Bytes>{bytes}), "");
}

// The sums of floats at any alignment have the bits of the plain sums.
TEST(FloatPiecesTest, AddBytesInPlaceEqualsAddInPlace) {
  for (int64_t count = 0; count < 70; ++count) {
    for (const size_t shift : {0, 1, 2, 3}) {
      const std::vector<float> addend = Values(count);
      std::vector<std::byte> shifted(shift + count * sizeof(float));
      if (count > 0) {
        std::memcpy(shifted.data() + shift, addend.data(), count * sizeof(float));
      }
      std::vector<float> sum(count, -0.1f), expected = sum;
      AddInPlace(expected, addend);
      AddBytesInPlace(sum, Bytes(shifted).subspan(shift));
      EXPECT_EQ(sum, expected);
    }
  }
}

}  // namespace
}  // namespace psring
