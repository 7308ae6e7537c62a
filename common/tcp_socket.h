// TCP sockets as owned values, with errors as statuses. Non-blocking throughout.
#ifndef PSRING_COMMON_TCP_SOCKET_H_
#define PSRING_COMMON_TCP_SOCKET_H_

#include <sys/socket.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace psring {

// Owns one file descriptor, or none (-1).
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.Release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }

 private:
  int Release();

  int fd_ = -1;
};

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t length = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  std::string ToString() const;  // "10.0.0.2:4711", "[::1]:4711"
};

// The addresses of "host:port" or "[address]:port", at least one, in the resolver's
// order. kInvalidArgument: not of that form. kUnavailable: the host has no address.
// Blocks as long as the system's resolver does.
absl::StatusOr<std::vector<SocketAddress>> ResolveTcp(absl::string_view host_and_port);

// A listening socket. `host` is an address or a name of this host, or empty for all its
// addresses; port 0 means any free one. kUnavailable: cannot be bound.
absl::StatusOr<FileDescriptor> ListenTcp(absl::string_view host, int port);
absl::StatusOr<int> BoundPort(const FileDescriptor& listener);

// Starts to connect. The socket is writable once it is connected or has failed, and
// SocketError says which.
absl::StatusOr<FileDescriptor> StartConnectTcp(const SocketAddress& address);
absl::Status SocketError(const FileDescriptor& socket);

// A pending connection and where it comes from; a descriptor that is not open if there
// is none (any more).
struct AcceptedTcp {
  FileDescriptor socket;
  std::string address;
};
absl::StatusOr<AcceptedTcp> AcceptTcp(const FileDescriptor& listener);

// Bytes moved, 0 if it would block. kUnavailable: the connection is closed or broken.
absl::StatusOr<size_t> SendTcp(const FileDescriptor& socket,
                               std::span<const std::byte> bytes);
absl::StatusOr<size_t> ReceiveTcp(const FileDescriptor& socket,
                                  std::span<std::byte> buffer);

// What poll(2) wants: milliseconds, rounded up so that it never spins before the
// deadline, and 24 days at most.
int PollMilliseconds(absl::Duration timeout);

}  // namespace psring

#endif  // PSRING_COMMON_TCP_SOCKET_H_
