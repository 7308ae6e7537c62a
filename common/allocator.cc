#include "common/allocator.h"

#include <malloc.h>

#include <climits>

#include "glog/logging.h"

namespace psring {

void TuneAllocator() {
#ifdef __GLIBC__
  // Blocks below 1 GiB come from the heap, not from a mapping of their own; the heap
  // grows by 64 MiB at a time and is never trimmed (int is as far as the call goes).
  const bool set = mallopt(M_MMAP_THRESHOLD, 1 << 30) == 1 &&
                   mallopt(M_TRIM_THRESHOLD, INT_MAX) == 1 &&
                   mallopt(M_TOP_PAD, 64 << 20) == 1;
  if (!set) LOG(WARNING) << "the allocator keeps its own settings; transfers may be slow";
#endif
}

}  // namespace psring
