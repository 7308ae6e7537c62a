#include "ring/shared_memory_ranks.h"

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "ring/ring_test_util.h"
#include "ring/shared_memory_segment.h"
#include "ring/shared_memory_test_util.h"

namespace psring {

SharedMemoryRanks MakeSharedMemoryRanks(const RingOrder& order, int64_t count) {
  const SharedMemoryJob job = UniqueJob(order.ranks(), count);
  SharedMemoryRanks ranks;
  ranks.collectives.resize(order.ranks());
  ranks.values.resize(order.ranks());
  const auto statuses = RunRanks(order.ranks(), [&](int rank) -> absl::Status {
    ASSIGN_OR_RETURN(const std::shared_ptr<SharedMemorySegment> segment,
                     SharedMemorySegment::Open(ForRank(job, rank), absl::Minutes(5)));
    ranks.values[rank] = segment->buffer();
    ranks.collectives[rank] = std::make_unique<SharedMemoryCollectives>(
        segment, SharedMemoryOptions{.order = order});
    return absl::OkStatus();
  });
  for (const absl::Status& status : statuses) CHECK(status.ok()) << status;
  return ranks;
}

std::vector<std::unique_ptr<SharedMemoryCollectives>> MakeSharedMemoryCollectives(
    const RingOrder& order) {
  return MakeSharedMemoryRanks(order, /*count=*/1).collectives;
}

}  // namespace psring
