// A parameter server as anybody would write it from the .proto alone: generated messages
// over a generated service, in front of a real shard.
#ifndef PSRING_TESTS_PLAIN_PARAMETER_SERVER_H_
#define PSRING_TESTS_PLAIN_PARAMETER_SERVER_H_

#include <memory>
#include <string>

#include "common/wire_type.h"
#include "server/parameter_shard.h"

namespace psring {

// Believes every hello. Serves until it ends; streams that are left are cancelled then.
class PlainParameterServer {
 public:
  PlainParameterServer(std::shared_ptr<ParameterShard> shard, const WireType& wire);
  ~PlainParameterServer();

  const std::string& address() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace psring

#endif  // PSRING_TESTS_PLAIN_PARAMETER_SERVER_H_
