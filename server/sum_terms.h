// Several terms added in one pass over a block of a sum.
#ifndef PSRING_SERVER_SUM_TERMS_H_
#define PSRING_SERVER_SUM_TERMS_H_

#include <cstddef>
#include <span>

#include "common/float_pieces.h"

namespace psring {

// Of one pass.
inline constexpr size_t kMostTerms = 4;

// With `begin` the terms are a sum's first ones, and what is in `sum` is not looked at:
//   sum[i] = ((terms[0][i] + terms[1][i]) + terms[2][i] ...) * factor
// else they are added to it:
//   sum[i] = (((sum[i] + terms[0][i]) + terms[1][i]) ...) * factor
//
// One to kMostTerms terms, each of as many floats as `sum`, as bytes at any alignment.
// The additions of an element are those of a loop over the terms, in the same order, so
// its bits do not depend on how terms are cut into passes; 1 as the factor of all but the
// last pass changes none. An element is read and written once in a pass, whatever the
// number of terms. No two spans overlap.
void SumTerms(bool begin, std::span<const Bytes> terms, float factor,
              std::span<float> sum);

}  // namespace psring

#endif  // PSRING_SERVER_SUM_TERMS_H_
