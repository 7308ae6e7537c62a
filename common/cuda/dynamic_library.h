// Libraries that are opened while the program runs: one program does with and without
// them.
#ifndef PSRING_COMMON_CUDA_DYNAMIC_LIBRARY_H_
#define PSRING_COMMON_CUDA_DYNAMIC_LIBRARY_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace psring {

// Where a library may be.
struct LibraryPlace {
  // A path, or a name without '/', which the system's linker looks for.
  std::string file;
  // What an error calls the place, as in "$PSRING_NCCL_LIB". Empty: nothing.
  std::string what = {};
};

// A library that was opened, for good: functions from it stay valid when this is gone.
// Copied freely.
class DynamicLibrary {
 public:
  // Opens the first of `places` that can be opened and that `accept` says OK to; what it
  // refuses is closed again. FailedPrecondition: none; one line that begins with "`name`
  // cannot be used" and says of each place what was wrong with it.
  static absl::StatusOr<DynamicLibrary> Open(
      const std::string& name, const std::vector<LibraryPlace>& places,
      absl::FunctionRef<absl::Status(const DynamicLibrary&)> accept);

  // The file that it was found in.
  const std::string& path() const { return path_; }

  // Sets `*function`, whose type is a pointer to a function of the right type, to the one
  // of this name. FailedPrecondition: there is none.
  template <typename Function>
  absl::Status Bind(const char* name, Function* function) const {
    void* found = nullptr;
    const absl::Status status = Find(name, &found);
    *function = reinterpret_cast<Function>(found);
    return status;
  }

 private:
  explicit DynamicLibrary(void* handle);

  absl::Status Find(const char* name, void** found) const;

  void* handle_;
  std::string path_;
};

}  // namespace psring

#endif  // PSRING_COMMON_CUDA_DYNAMIC_LIBRARY_H_
