#include "common/tcp_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"

namespace psring {
namespace {

absl::Status SystemError(absl::string_view what, int error) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(error)));
}

absl::StatusOr<std::vector<SocketAddress>> Resolve(const std::string& host,
                                                   const std::string& port, int flags) {
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot resolve '", host, "': ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(found, &freeaddrinfo);
  std::vector<SocketAddress> addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
  }
  return addresses;
}

absl::StatusOr<FileDescriptor> NewSocket(const SocketAddress& address) {
  FileDescriptor socket(
      ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.open()) return SystemError("cannot make a socket", errno);
  return socket;
}

// Hops forward small pieces at once; Nagle's algorithm would hold them back.
absl::Status DisableNagle(const FileDescriptor& socket) {
  const int on = 1;
  if (setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0) {
    return SystemError("cannot set TCP_NODELAY", errno);
  }
  return absl::OkStatus();
}

absl::StatusOr<FileDescriptor> ListenAt(const SocketAddress& address) {
  ASSIGN_OR_RETURN(FileDescriptor socket, NewSocket(address));
  const int on = 1;
  const int off = 0;
  const bool v6 = address.storage.ss_family == AF_INET6;
  if (setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      (v6 &&
       setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) != 0) ||
      bind(socket.get(), address.get(), address.length) != 0 ||
      listen(socket.get(), SOMAXCONN) != 0) {
    return SystemError(absl::StrCat("cannot listen at ", address.ToString()), errno);
  }
  return socket;
}

bool WouldBlock(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (open()) close(fd_);
}

int FileDescriptor::Release() { return std::exchange(fd_, -1); }

std::string SocketAddress::ToString() const {
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  const int error = getnameinfo(get(), length, host, sizeof(host), port, sizeof(port),
                                NI_NUMERICHOST | NI_NUMERICSERV);
  if (error != 0) return gai_strerror(error);
  return storage.ss_family == AF_INET6 ? absl::StrCat("[", host, "]:", port)
                                       : absl::StrCat(host, ":", port);
}

absl::StatusOr<std::vector<SocketAddress>> ResolveTcp(absl::string_view host_and_port) {
  const size_t colon = host_and_port.rfind(':');
  if (colon == absl::string_view::npos || colon == 0 ||
      colon + 1 == host_and_port.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", host_and_port, "' is not of the form host:port"));
  }
  absl::string_view host = host_and_port.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  return Resolve(std::string(host), std::string(host_and_port.substr(colon + 1)), 0);
}

absl::StatusOr<FileDescriptor> ListenTcp(absl::string_view host, int port) {
  ASSIGN_OR_RETURN(const std::vector<SocketAddress> addresses,
                   Resolve(std::string(host), absl::StrCat(port), AI_PASSIVE));
  absl::Status first_error;
  for (const SocketAddress& address : addresses) {
    absl::StatusOr<FileDescriptor> listener = ListenAt(address);
    if (listener.ok()) return listener;
    first_error.Update(listener.status());
  }
  return first_error;
}

absl::StatusOr<int> BoundPort(const FileDescriptor& listener) {
  SocketAddress address;
  address.length = sizeof(address.storage);
  if (getsockname(listener.get(), address.get(), &address.length) != 0) {
    return SystemError("cannot read the bound port", errno);
  }
  return ntohs(address.storage.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
}

absl::StatusOr<FileDescriptor> StartConnectTcp(const SocketAddress& address) {
  ASSIGN_OR_RETURN(FileDescriptor socket, NewSocket(address));
  RETURN_IF_ERROR(DisableNagle(socket));
  if (connect(socket.get(), address.get(), address.length) != 0 && errno != EINPROGRESS &&
      errno != EINTR) {
    return SystemError("cannot connect", errno);
  }
  return socket;
}

absl::Status SocketError(const FileDescriptor& socket) {
  int error = 0;
  socklen_t length = sizeof(error);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  return error == 0 ? absl::OkStatus() : SystemError("cannot connect", error);
}

absl::StatusOr<AcceptedTcp> AcceptTcp(const FileDescriptor& listener) {
  SocketAddress address;
  address.length = sizeof(address.storage);
  AcceptedTcp accepted;
  accepted.socket = FileDescriptor(accept4(listener.get(), address.get(), &address.length,
                                           SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!accepted.socket.open()) {
    // A caller may have hung up before it was accepted.
    if (WouldBlock(errno) || errno == ECONNABORTED) return accepted;
    return SystemError("cannot accept a connection", errno);
  }
  RETURN_IF_ERROR(DisableNagle(accepted.socket));
  accepted.address = address.ToString();
  return accepted;
}

absl::StatusOr<size_t> SendTcp(const FileDescriptor& socket,
                               std::span<const std::byte> bytes) {
  const ssize_t sent = send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent >= 0) return static_cast<size_t>(sent);
  if (WouldBlock(errno)) return size_t{0};
  return SystemError("cannot send", errno);
}

absl::StatusOr<size_t> ReceiveTcp(const FileDescriptor& socket,
                                  std::span<std::byte> buffer) {
  const ssize_t received = recv(socket.get(), buffer.data(), buffer.size(), 0);
  if (received > 0) return static_cast<size_t>(received);
  if (received == 0) return absl::UnavailableError("closed the connection");
  if (WouldBlock(errno)) return size_t{0};
  return SystemError("cannot receive", errno);
}

int PollMilliseconds(absl::Duration timeout) {
  const absl::Duration bounded =
      std::clamp(timeout, absl::ZeroDuration(), absl::Hours(24 * 24));
  return static_cast<int>(
      absl::ToInt64Milliseconds(absl::Ceil(bounded, absl::Milliseconds(1))));
}

}  // namespace psring
