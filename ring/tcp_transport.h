// A ring over TCP: one connection to the right, one from the left, each used one way.
#ifndef PSRING_RING_TCP_TRANSPORT_H_
#define PSRING_RING_TCP_TRANSPORT_H_

#include <cstddef>
#include <memory>
#include <string>

#include "common/tcp_socket.h"
#include "ring/transport.h"

namespace psring {

class TcpTransport final : public Transport {
 public:
  // Takes over two connected, non-blocking sockets on which `opening` bytes have passed
  // already. kUnavailable: the system is out of descriptors.
  static absl::StatusOr<std::unique_ptr<Transport>> Make(FileDescriptor to_right,
                                                         FileDescriptor from_left,
                                                         std::string right,
                                                         std::string left,
                                                         WireBytes opening);

 private:
  TcpTransport(FileDescriptor to_right, FileDescriptor from_left, FileDescriptor abort,
               std::string right, std::string left, WireBytes opening);

  absl::StatusOr<size_t> DoTrySend(std::span<const std::byte> bytes) override;
  absl::StatusOr<size_t> DoTryReceive(std::span<std::byte> buffer) override;
  absl::Status DoWait(SendInterest send, bool receive, absl::Duration timeout) override;
  void DoAbort() override;

  const FileDescriptor to_right_;
  const FileDescriptor from_left_;
  const FileDescriptor abort_;  // An eventfd: readable once aborted.
};

}  // namespace psring

#endif  // PSRING_RING_TCP_TRANSPORT_H_
