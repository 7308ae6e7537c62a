// Jobs and values for the tests of shared memory.
#ifndef PSRING_RING_SHARED_MEMORY_TEST_UTIL_H_
#define PSRING_RING_SHARED_MEMORY_TEST_UTIL_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/ring_order.h"
#include "ring/collectives.h"
#include "ring/shared_memory_segment.h"

namespace psring {

// Rank 0 of a job that no other test has.
SharedMemoryJob UniqueJob(int ranks, int64_t count);
SharedMemoryJob ForRank(SharedMemoryJob job, int rank);

// The name under which the job's ranks find each other, and whether it is there.
std::string NameOf(const SharedMemoryJob& job);
bool Exists(const std::string& name);
void AwaitExistence(const std::string& name);

OperationTag TagOf(int64_t step);  // Of bucket 3.

// Tells rank and index, does not add up exactly, and is -0 on every rank at times.
float Term(int rank, int64_t index);
std::vector<float> Terms(int rank, int64_t count);
// The sums of all ranks' terms.
std::vector<float> Fold(const RingOrder& order, int64_t count);

std::vector<uint32_t> Bits(std::span<const float> values);

}  // namespace psring

#endif  // PSRING_RING_SHARED_MEMORY_TEST_UTIL_H_
