// Messages to a server and back through each of gRPC's interfaces, with nothing else
// behind it. Whatever is made here runs until its process ends; an answer that does not
// come ends a worker's process, with the reason.
#ifndef PSRING_TESTS_INTERFACE_WAYS_H_
#define PSRING_TESTS_INTERFACE_WAYS_H_

#include <functional>
#include <memory>

#include "grpcpp/support/byte_buffer.h"

namespace psring {

struct Interface {
  bool stream = true;      // A long-lived stream per connection; or a call per request.
  bool queue = true;       // Completion queues at both ends; or callbacks.
  int connections = 1;     // Of a worker; each has a queue and a thread of its own.
  int server_threads = 1;  // That poll the server's queue; callbacks run on gRPC's own.
};

// A worker's end of a connection. Any thread.
class InterfaceConnection {
 public:
  virtual ~InterfaceConnection() = default;
  virtual void Send(const grpc::ByteBuffer& request) = 0;
};

// To the server on this host. Answers are taken by another thread.
std::unique_ptr<InterfaceConnection> ConnectInterface(
    const Interface& interface, int port,
    std::function<void(grpc::ByteBuffer* answer)> take);

// Calls `listening`, then answers each request. At most `max_requests` are under way.
[[noreturn]] void ServeInterface(
    const Interface& interface, int max_requests,
    std::function<grpc::ByteBuffer(grpc::ByteBuffer* request)> answer,
    const std::function<void(int port)>& listening);

}  // namespace psring

#endif  // PSRING_TESTS_INTERFACE_WAYS_H_
