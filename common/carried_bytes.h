// What this process's TCP connections have carried, as the kernel has counted it: also
// for connections that a library keeps to itself.
#ifndef PSRING_COMMON_CARRIED_BYTES_H_
#define PSRING_COMMON_CARRIED_BYTES_H_

#include <cstdint>
#include <optional>
#include <string>

namespace psring {

struct CarriedBytes {
  int64_t out = 0;
  int64_t in = 0;
};

// Of all connections to other addresses than their own that are open now, but those to
// `except` ("host:port"), since each began: what has been handed to them, and what they
// have handed out or still hold. Without the headers of TCP and below, and each byte once
// however often it was sent; the start of a connection may count as one byte. None: there
// is no such connection, or the kernel does not say. Any thread.
std::optional<CarriedBytes> CarriedOverTcp(const std::string& except);

}  // namespace psring

#endif  // PSRING_COMMON_CARRIED_BYTES_H_
