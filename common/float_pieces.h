// Floats as they come off the wire: bytes in consecutive pieces.
#ifndef PSRING_COMMON_FLOAT_PIECES_H_
#define PSRING_COMMON_FLOAT_PIECES_H_

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace psring {

static_assert(std::endian::native == std::endian::little,
              "floats are copied to and from the wire, not converted");

using Bytes = std::span<const std::byte>;

// A view of floats whose little-endian bytes lie in consecutive pieces, cut anywhere (a
// float may straddle several) and at any alignment. Owns the list, not the bytes.
class FloatPieces {
 public:
  FloatPieces() = default;
  // One piece. Implicit, because plain floats are the simplest case.
  template <std::convertible_to<std::span<const float>> Floats>
  FloatPieces(const Floats& values)  // NOLINT(google-explicit-constructor)
      : FloatPieces(std::vector<Bytes>{std::as_bytes(std::span<const float>(values))}) {}
  // Pieces may be empty; together they are whole floats.
  explicit FloatPieces(std::vector<Bytes> pieces);

  int64_t count() const { return count_; }
  std::span<const Bytes> pieces() const { return pieces_; }
  // `values` has count() elements.
  void CopyTo(std::span<float> values) const;

 private:
  std::vector<Bytes> pieces_;
  int64_t count_ = 0;
};

// Reads such floats once, from the first to the last, without copying them together.
class FloatReader {
 public:
  // The view and its bytes outlive the reader.
  FloatReader() = default;  // Of none.
  explicit FloatReader(const FloatPieces& floats) : pieces_(floats.pieces()) {}

  // The bytes of the next floats: at least one and at most `limit`, as many as lie whole
  // in one piece. Valid until the next call. Requires `limit` > 0 and a float left.
  Bytes Next(int64_t limit);

  // How many floats Next would return without a limit. Requires that one is left.
  int64_t Ahead();

 private:
  // What is left of the first piece that is not used up.
  Bytes Left();

  std::span<const Bytes> pieces_;  // What is left; of the first, from offset_ on.
  size_t offset_ = 0;
  std::array<std::byte, sizeof(float)> straddling_{};
};

}  // namespace psring

#endif  // PSRING_COMMON_FLOAT_PIECES_H_
