#include "server/sum_terms.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <span>
#include <vector>

#include "common/float_pieces.h"
#include "gtest/gtest.h"

namespace psring {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// All pairs of the values that are not like others, and some whose sums depend on the
// order of the additions.
std::vector<float> Term(int term, int64_t count) {
  constexpr float kSpecial[] = {
      0.0f, -0.0f, kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(),
      1e8f, -1e8f, 1.0f,      3e38f,      std::numeric_limits<float>::denorm_min()};
  constexpr int64_t kSpecials = std::size(kSpecial);
  std::vector<float> values(count);
  for (int64_t i = 0; i < count; ++i) {
    int64_t digit = i;  // The term's, of the element's number with kSpecials digits.
    for (int position = 0; position < term % 3; ++position) digit /= kSpecials;
    values[i] = i < kSpecials * kSpecials * kSpecials
                    ? kSpecial[digit % kSpecials]
                    : static_cast<float>(term + 1) * 1e4f / static_cast<float>(3 + i);
  }
  return values;
}

// One operation at a time, in an order that no compiler changes.
float SerialSum(bool begin, float before, const std::vector<std::vector<float>>& terms,
                float factor, int64_t i) {
  volatile float sum = begin ? terms[0][i] : before;
  for (size_t term = begin ? 1 : 0; term < terms.size(); ++term) {
    sum = sum + terms[term][i];
  }
  return sum * factor;
}

// What is not a number has many bit patterns, and which of two is kept is not defined.
bool SameBits(float a, float b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

TEST(SumTermsTest, GivesTheBitsOfALoopOverTheTerms) {
  for (size_t count = 1; count <= kMostTerms; ++count) {
    for (const int64_t elements : {1, 2, 7, 15, 16, 17, 1003, 2048}) {
      for (const bool begin : {true, false}) {
        for (const float factor : {1.0f, 1.0f / 3}) {
          // Of term t the floats begin t bytes behind an aligned address.
          std::vector<std::vector<float>> terms;
          std::vector<std::vector<std::byte>> memory;
          std::vector<Bytes> bytes;
          for (size_t term = 0; term < count; ++term) {
            terms.push_back(Term(static_cast<int>(term), elements));
            memory.emplace_back(term + elements * sizeof(float));
            std::memcpy(memory[term].data() + term, terms[term].data(),
                        elements * sizeof(float));
          }
          for (size_t term = 0; term < count; ++term) {
            bytes.push_back(Bytes(memory[term]).subspan(term));
          }
          const std::vector<float> before = Term(2, elements);
          std::vector<float> sum = before;
          SumTerms(begin, bytes, factor, sum);
          for (int64_t i = 0; i < elements; ++i) {
            const float expected = SerialSum(begin, before[i], terms, factor, i);
            ASSERT_TRUE(SameBits(sum[i], expected))
                << sum[i] << " is not " << expected << ": element " << i << " of "
                << elements << ", " << count << " terms, begin " << begin << ", factor "
                << factor;
          }
        }
      }
    }
  }
}

TEST(SumTermsDeathTest, TermsOfAnotherSizeAreABug) {
  const std::vector<float> term(3);
  std::vector<float> sum(4);
  const std::vector<Bytes> terms = {std::as_bytes(std::span(term))};
  EXPECT_DEATH(SumTerms(true, terms, 1, sum), "");
  EXPECT_DEATH(SumTerms(true, {}, 1, sum), "");
}

}  // namespace
}  // namespace psring
