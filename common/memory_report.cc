#include "common/memory_report.h"

#include <fstream>
#include <string>

#include "common/coordinator.h"

namespace psring {

// Not getrusage: what that says includes the process as it was before exec.
std::optional<int64_t> MostResidentBytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  int64_t kib = 0;
  while (status >> word) {
    if (word == "VmHWM:" && status >> kib) return kib * 1024;
  }
  return std::nullopt;
}

void AddMemory(const Member& member, const MemoryGauges& gauges, RecordBatch* batch) {
  const auto add = [&](const std::string& purpose, int64_t bytes) {
    MemoryRecord& record = *batch->add_memory();
    record.set_process(ToString(member));
    record.set_purpose(purpose);
    record.set_bytes(bytes);
  };
  for (const auto& [purpose, bytes] : gauges.Peaks()) add(purpose, bytes);
  if (const auto resident = MostResidentBytes()) {
    add(memory_purpose::kResident, *resident);
  }
}

}  // namespace psring
