#include "common/fuzz_util.h"

#include <sys/mman.h>
#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "glog/logging.h"

namespace psring {

bool IsOneLine(absl::string_view message) {
  return std::none_of(message.begin(), message.end(),
                      [](unsigned char c) { return absl::ascii_iscntrl(c); });
}

MemoryFile::MemoryFile(absl::string_view content)
    : descriptor_(memfd_create("psring", MFD_CLOEXEC)),
      path_(absl::StrCat("/proc/self/fd/", descriptor_)) {
  PCHECK(descriptor_ >= 0);
  while (!content.empty()) {
    const ssize_t written = write(descriptor_, content.data(), content.size());
    PCHECK(written > 0);
    content.remove_prefix(written);
  }
}

MemoryFile::~MemoryFile() { close(descriptor_); }

}  // namespace psring
