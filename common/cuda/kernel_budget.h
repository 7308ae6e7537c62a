// Whether compiled kernels stay within the registers that a budget file allows them.
#ifndef PSRING_COMMON_CUDA_KERNEL_BUDGET_H_
#define PSRING_COMMON_CUDA_KERNEL_BUDGET_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace psring {

// What a kernel takes on one architecture.
struct KernelUsage {
  std::string kernel;        // "DigestKernel", "ElementwiseKernel<AddBias>".
  std::string architecture;  // "sm_90".
  int registers = 0;         // Of a thread.
  int stack_bytes = 0;       // What does not fit into registers.
  int spill_bytes = 0;       // Stores and loads of it.
};

// From what `nvcc -Xptxas -v` prints. A kernel is named by what follows
// "psring::RunKernel" in its name, or else by all of it. InvalidArgument, with the line:
// that is no such text, or breaks off.
absl::StatusOr<std::vector<KernelUsage>> ParseUsage(const std::string& text);

// Registers by kernel. A line is a kernel's name and the most registers that a thread of
// it may take, on any architecture; # begins a comment. InvalidArgument, with the line:
// it is something else, or names a kernel twice.
absl::StatusOr<std::map<std::string, int>> ParseBudget(const std::string& text);

// One line for each thing that is wrong: a kernel that takes more registers than its
// budget, that spills or has a stack, that has no budget or is not compiled for one of
// `architectures`; and a budget of a kernel that there is not.
std::vector<std::string> FindBeyondBudget(const std::map<std::string, int>& budget,
                                          const std::vector<KernelUsage>& usage,
                                          const std::vector<std::string>& architectures);

}  // namespace psring

#endif  // PSRING_COMMON_CUDA_KERNEL_BUDGET_H_
