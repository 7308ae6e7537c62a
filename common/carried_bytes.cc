#include "common/carried_bytes.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <set>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/tcp_socket.h"

namespace psring {
namespace {

// "10.0.0.2:4711", also where an IPv6 socket has an IPv4 address.
std::string TextOf(const SocketAddress& address) {
  const std::string text = address.ToString();
  absl::string_view rest = text;
  if (!absl::ConsumePrefix(&rest, "[::ffff:")) return text;
  return absl::StrReplaceAll(rest, {{"]", ""}});
}

// "10.0.0.2:4711" -> "10.0.0.2"
std::string HostOf(const SocketAddress& address) {
  const std::string text = TextOf(address);
  return text.substr(0, text.rfind(':'));
}

bool Has(const std::vector<SocketAddress>& addresses, const SocketAddress& address) {
  return std::any_of(addresses.begin(), addresses.end(),
                     [&](const auto& other) { return TextOf(other) == TextOf(address); });
}

// None: it is no connected TCP socket.
std::optional<SocketAddress> PeerOf(int fd) {
  int protocol = 0;
  socklen_t length = sizeof(protocol);
  if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &length) != 0 ||
      protocol != IPPROTO_TCP) {
    return std::nullopt;
  }
  SocketAddress peer;
  peer.length = sizeof(peer.storage);
  if (getpeername(fd, peer.get(), &peer.length) != 0) return std::nullopt;
  return peer;
}

bool StaysHere(int fd, const SocketAddress& peer) {
  SocketAddress own;
  own.length = sizeof(own.storage);
  return getsockname(fd, own.get(), &own.length) != 0 || HostOf(own) == HostOf(peer);
}

// What the peer has acknowledged, and what waits for that. (The kernel's count of bytes
// sent has a segment twice that its own queue has dropped.)
std::optional<CarriedBytes> CarriedBy(int fd) {
  tcp_info info = {};
  socklen_t length = sizeof(info);
  // Kernels before 4.2 fill in less.
  constexpr size_t kNeeded =
      offsetof(tcp_info, tcpi_bytes_received) + sizeof(info.tcpi_bytes_received);
  int waiting = 0;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 || length < kNeeded ||
      ioctl(fd, SIOCOUTQ, &waiting) != 0) {
    return std::nullopt;
  }
  return CarriedBytes{.out = static_cast<int64_t>(info.tcpi_bytes_acked) + waiting,
                      .in = static_cast<int64_t>(info.tcpi_bytes_received)};
}

}  // namespace

std::optional<CarriedBytes> CarriedOverTcp(const std::string& except) {
  const auto excepted = ResolveTcp(except);
  if (!excepted.ok()) return std::nullopt;
  std::optional<CarriedBytes> sum;
  std::set<ino_t> seen;  // A connection may have several descriptors.
  std::error_code error;
  for (std::filesystem::directory_iterator entries("/proc/self/fd", error), end;
       !error && entries != end; entries.increment(error)) {
    int fd = -1;
    struct stat status = {};
    if (!absl::SimpleAtoi(entries->path().filename().string(), &fd) ||
        fstat(fd, &status) != 0 || !S_ISSOCK(status.st_mode)) {
      continue;
    }
    const std::optional<SocketAddress> peer = PeerOf(fd);
    if (!peer || Has(*excepted, *peer) || StaysHere(fd, *peer)) continue;
    if (!seen.insert(status.st_ino).second) continue;
    const std::optional<CarriedBytes> carried = CarriedBy(fd);
    if (!carried) return std::nullopt;
    if (!sum) sum.emplace();
    sum->out += carried->out;
    sum->in += carried->in;
  }
  return sum;
}

}  // namespace psring
