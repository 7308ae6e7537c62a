// The parameter channel as anybody would write it from the .proto alone: generated
// messages over a generated stub. What psring's own channel and server are tested and
// measured against.
#ifndef PSRING_TESTS_PLAIN_PARAMETER_CHANNEL_H_
#define PSRING_TESTS_PLAIN_PARAMETER_CHANNEL_H_

#include <memory>
#include <string>

#include "worker/parameter_channel.h"

namespace psring {

// Of job "test", without a fingerprint. Only an Abort bounds its requests.
std::unique_ptr<ParameterChannel> NewPlainParameterChannel(int rank,
                                                           const std::string& address);

}  // namespace psring

#endif  // PSRING_TESTS_PLAIN_PARAMETER_CHANNEL_H_
