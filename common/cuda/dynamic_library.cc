#include "common/cuda/dynamic_library.h"

#include <dlfcn.h>
#include <link.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace psring {
namespace {

std::string LastError() {
  const char* const error = dlerror();
  return error == nullptr ? "unknown" : error;
}

}  // namespace

DynamicLibrary::DynamicLibrary(void* handle) : handle_(handle) {
  link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0) path_ = map->l_name;
}

absl::StatusOr<DynamicLibrary> DynamicLibrary::Open(
    const std::string& name, const std::vector<LibraryPlace>& places,
    absl::FunctionRef<absl::Status(const DynamicLibrary&)> accept) {
  std::vector<std::string> tried;
  for (const LibraryPlace& place : places) {
    // All symbols now: what is missing should show here, not in the middle of training.
    void* const handle = dlopen(place.file.c_str(), RTLD_NOW | RTLD_LOCAL);
    std::string problem;
    if (handle == nullptr) {
      problem = LastError();
    } else {
      const DynamicLibrary library(handle);
      const absl::Status accepted = accept(library);
      if (accepted.ok()) return library;
      problem = absl::StrCat(library.path(), ": ", accepted.message());
      dlclose(handle);
    }
    tried.push_back(
        absl::StrCat(place.what.empty() ? "" : absl::StrCat(place.what, ": "), problem));
  }
  return absl::FailedPreconditionError(
      absl::StrCat(name, " cannot be used: ", absl::StrJoin(tried, "; ")));
}

absl::Status DynamicLibrary::Find(const char* name, void** found) const {
  *found = dlsym(handle_, name);
  if (*found != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("has no ", name));
}

}  // namespace psring
