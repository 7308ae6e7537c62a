// The process's memory allocator, set up for moving tensors.
#ifndef PSRING_COMMON_ALLOCATOR_H_
#define PSRING_COMMON_ALLOCATOR_H_

namespace psring {

// Makes the allocator keep what is freed. gRPC allocates and frees the slices that it
// receives, megabytes per message; with glibc's defaults large ones are mapped and
// unmapped each time, and the processor clears pages instead of moving tensors
// (server/README.md has the measurement). The price: a process does not shrink.
//
// Once, at the start of a process, before it allocates much.
void TuneAllocator();

}  // namespace psring

#endif  // PSRING_COMMON_ALLOCATOR_H_
