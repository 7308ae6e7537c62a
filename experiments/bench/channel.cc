#include "experiments/bench/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "glog/logging.h"

namespace psring {
namespace {

constexpr size_t kMaxMessageBytes = 256 * 1024;

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is too long for a socket; set TMPDIR to a shorter folder"));
  }
  path.copy(address.sun_path, path.size());
  return address;
}

absl::Status SystemError(const char* call, const std::string& path) {
  return absl::UnavailableError(absl::StrCat(call, " ", path, ": ", strerror(errno)));
}

FileDescriptor MakeSocket() {
  // Packets, unlike a stream, need no framing; and they are never lost or reordered.
  return FileDescriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
}

}  // namespace

absl::StatusOr<BenchChannel> BenchChannel::Connect(const std::string& path) {
  ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  FileDescriptor socket = MakeSocket();
  if (!socket.open() || connect(socket.get(), reinterpret_cast<const sockaddr*>(&address),
                                sizeof address) != 0) {
    return SystemError("cannot connect to", path);
  }
  return BenchChannel(std::move(socket));
}

absl::Status BenchChannel::Send(const google::protobuf::MessageLite& message) {
  const std::string bytes = message.SerializeAsString();
  CHECK(!bytes.empty());  // Receive could not tell it from the end.
  if (send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) {
    return absl::UnavailableError(absl::StrCat("cannot send: ", strerror(errno)));
  }
  return absl::OkStatus();
}

absl::Status BenchChannel::Receive(google::protobuf::MessageLite* message) {
  std::vector<char> bytes(kMaxMessageBytes);
  ssize_t size;
  do {
    size = recv(socket_.get(), bytes.data(), bytes.size(), 0);
  } while (size < 0 && errno == EINTR);
  if (size < 0) {
    return absl::UnavailableError(absl::StrCat("cannot receive: ", strerror(errno)));
  }
  if (size == 0) return absl::UnavailableError("the other end has closed the channel");
  if (!message->ParseFromArray(bytes.data(), static_cast<int>(size))) {
    return absl::InternalError("a message on the channel cannot be parsed");
  }
  return absl::OkStatus();
}

absl::StatusOr<BenchListener> BenchListener::Listen(const std::string& path) {
  ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  FileDescriptor socket = MakeSocket();
  if (!socket.open() ||
      bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
          0 ||
      listen(socket.get(), SOMAXCONN) != 0) {
    return SystemError("cannot listen at", path);
  }
  return BenchListener(std::move(socket));
}

absl::StatusOr<BenchChannel> BenchListener::Accept() {
  FileDescriptor socket(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.open()) {
    return absl::UnavailableError(absl::StrCat("accept: ", strerror(errno)));
  }
  return BenchChannel(std::move(socket));
}

}  // namespace psring
