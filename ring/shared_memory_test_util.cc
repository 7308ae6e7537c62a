#include "ring/shared_memory_test_util.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>

#include "absl/strings/str_cat.h"
#include "common/fingerprint.h"
#include "common/partition.h"

namespace psring {

SharedMemoryJob UniqueJob(int ranks, int64_t count) {
  static std::atomic<int> jobs{0};
  return {.job = absl::StrCat("test ", getpid(), " ", jobs++),
          .ranks = ranks,
          .fingerprint = 1,
          .count = count};
}

SharedMemoryJob ForRank(SharedMemoryJob job, int rank) {
  job.rank = rank;
  return job;
}

std::string NameOf(const SharedMemoryJob& job) {
  return absl::StrCat("/dev/shm/psring-", getuid(), "-",
                      absl::Hex(FingerprintOf(job.job), absl::kZeroPad16));
}

bool Exists(const std::string& name) { return access(name.c_str(), F_OK) == 0; }

void AwaitExistence(const std::string& name) {
  while (!Exists(name)) sched_yield();
}

OperationTag TagOf(int64_t step) { return {.step = step, .bucket = 3}; }

float Term(int rank, int64_t index) {
  if (index % 17 == 3) return -0.0f;
  const float magnitude =
      static_cast<float>(rank + 1) * 1000.1f + static_cast<float>(index) * 0.37f;
  return (rank + index) % 2 == 0 ? magnitude : -magnitude / 3.0f;
}

std::vector<float> Terms(int rank, int64_t count) {
  std::vector<float> terms(count);
  for (int64_t i = 0; i < count; ++i) terms[i] = Term(rank, i);
  return terms;
}

std::vector<float> Fold(const RingOrder& order, int64_t count) {
  std::vector<float> sums(count);
  for (int chunk = 0; chunk < order.ranks(); ++chunk) {
    const Range range = PartitionRange(count, order.ranks(), chunk);
    for (int64_t i = range.begin; i < range.end(); ++i) {
      sums[i] = Term(order.FoldRank(chunk, 0), i);
      for (int term = 1; term < order.ranks(); ++term) {
        sums[i] = sums[i] + Term(order.FoldRank(chunk, term), i);
      }
    }
  }
  return sums;
}

std::vector<uint32_t> Bits(std::span<const float> values) {
  std::vector<uint32_t> bits(values.size());
  std::transform(values.begin(), values.end(), bits.begin(),
                 [](float value) { return std::bit_cast<uint32_t>(value); });
  return bits;
}

}  // namespace psring
