// The processor as a device: oneDNN with one compute thread.
#ifndef PSRING_COMMON_CPU_DEVICE_H_
#define PSRING_COMMON_CPU_DEVICE_H_

#include <memory>

#include "common/device.h"

namespace psring {

// Works in the thread that made it, which is the one to use it: OpenMP is limited to one
// thread per calling thread. Primitives are made at the first call of each shape and
// kept.
std::unique_ptr<Device> MakeCpuDevice();

}  // namespace psring

#endif  // PSRING_COMMON_CPU_DEVICE_H_
