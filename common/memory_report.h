// What a process reports of its memory at its end.
#ifndef PSRING_COMMON_MEMORY_REPORT_H_
#define PSRING_COMMON_MEMORY_REPORT_H_

#include <cstdint>
#include <optional>

#include "common/memory_gauge.h"
#include "proto/coordinator.pb.h"
#include "proto/record.pb.h"

namespace psring {

// The most physical memory that this process has had, of everything that it does; none
// where the kernel does not say.
std::optional<int64_t> MostResidentBytes();

// Appends the most of each purpose, and of all.
void AddMemory(const Member& member, const MemoryGauges& gauges, RecordBatch* batch);

}  // namespace psring

#endif  // PSRING_COMMON_MEMORY_REPORT_H_
