// A TCP connection to a server that may not be there yet.
#ifndef PSRING_WORKER_TCP_CONNECTOR_H_
#define PSRING_WORKER_TCP_CONNECTOR_H_

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/tcp_socket.h"

namespace psring {

// One thread connects, any thread stops it.
class TcpConnector {
 public:
  // "host:port".
  explicit TcpConnector(std::string address);

  // Tries all addresses of the host in turn, again and again, until one answers. Errors:
  // kDeadlineExceeded, none has by `until`, with the last attempt's error; kCancelled,
  // stopped; kInvalidArgument, the address is none. The system's resolver, where a name
  // needs it, takes its own time.
  absl::StatusOr<FileDescriptor> Connect(std::chrono::steady_clock::time_point until);

  // Ends Connect, now and for ever.
  void Stop();

 private:
  using Time = std::chrono::steady_clock::time_point;

  absl::StatusOr<FileDescriptor> Attempt(const SocketAddress& address, Time until);
  // Waits until the socket (-1: none) is writable, true, or until the time has come.
  absl::StatusOr<bool> AwaitWritable(int socket, Time until);

  const std::string address_;
  const FileDescriptor stop_;  // An eventfd, readable once stopped.
};

}  // namespace psring

#endif  // PSRING_WORKER_TCP_CONNECTOR_H_
