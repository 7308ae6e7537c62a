// What both ends of proto/parameter_server.proto must write alike beyond its messages.
#ifndef PSRING_COMMON_WIRE_PROTOCOL_H_
#define PSRING_COMMON_WIRE_PROTOCOL_H_

#include <cstdint>

namespace psring {

// Raised when an end of the older version would misunderstand the newer one.
inline constexpr int32_t kWireProtocolVersion = 2;
inline constexpr char kHelloMetadata[] = "psring-hello-bin";

}  // namespace psring

#endif  // PSRING_COMMON_WIRE_PROTOCOL_H_
