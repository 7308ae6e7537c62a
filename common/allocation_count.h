// How often a piece of a test's code allocates.
#ifndef PSRING_COMMON_ALLOCATION_COUNT_H_
#define PSRING_COMMON_ALLOCATION_COUNT_H_

#include <cstdint>

namespace psring {

// Calls of operator new by this thread since it began. A test binary that is linked with
// this has an operator new of its own, which counts and allocates with malloc; what calls
// malloc itself is not seen.
int64_t AllocationsOfThisThread();

}  // namespace psring

#endif  // PSRING_COMMON_ALLOCATION_COUNT_H_
