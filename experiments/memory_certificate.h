// Whether the memory of an arm's processes was what its formula says. Pure.
#ifndef PSRING_EXPERIMENTS_MEMORY_CERTIFICATE_H_
#define PSRING_EXPERIMENTS_MEMORY_CERTIFICATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/job_plan.h"
#include "experiments/arm_records.h"
#include "experiments/certificate.h"
#include "proto/coordinator.pb.h"

namespace psring {

// Of one purpose: the most that a process has had, and its budget.
struct MemoryUse {
  std::string purpose;
  int64_t bytes = 0;
  std::optional<int64_t> budget = std::nullopt;  // There is none for such a purpose.
  bool exact = true;                             // As in PurposeBudget.
};

struct ProcessMemory {
  std::string name;
  std::string role;
  bool reported = false;
  std::vector<MemoryUse> uses;  // With a budget first.
  // Everything, as the kernel has it, where that is known.
  std::optional<int64_t> resident = std::nullopt;
};

// Of each process of the arm, workers first.
std::vector<ProcessMemory> MemoryOf(const JobSpec& spec, const JobPlan& plan,
                                    const ArmRecords& records);

// Every process must have reported, and no purpose may be without a budget. Names the
// first number that is not as it should be.
Certificate CertifyMemory(const std::vector<ProcessMemory>& processes);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_MEMORY_CERTIFICATE_H_
