// Links over TCP.
#ifndef PSRING_RING_TCP_TRANSPORT_H_
#define PSRING_RING_TCP_TRANSPORT_H_

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/tcp_socket.h"
#include "ring/control_message.h"
#include "ring/transport.h"
#include "ring/yields.h"

namespace psring {

// The connections to one peer, all non-blocking. Each stream of the link has lanes of its
// own: on a shared one, sending and receiving would wait for each other inside the
// kernel. A stream uses its lanes in turn and a block at a time, so that the bytes come
// out as they went in however many there are. What ranks say beside their payload has a
// connection of its own, where nothing is in its way.
struct TcpLink {
  Transport::Peer peer;
  FileDescriptor control;
  std::vector<FileDescriptor> out;  // At least one.
  std::vector<FileDescriptor> in;   // As many.
};

class TcpTransport final : public Transport {
 public:
  // Waits yield and sleep; with `spin` they poll to their end. kUnavailable:
  // the system is out of descriptors.
  static absl::StatusOr<std::unique_ptr<Transport>> Make(int rank,
                                                         std::vector<TcpLink> links,
                                                         bool spin);

 private:
  struct Connections {
    int peer = 0;
    FileDescriptor control;
    std::vector<FileDescriptor> out;
    std::vector<FileDescriptor> in;
    uint64_t sent = 0;
    uint64_t received = 0;
    ControlReader said;
  };

  TcpTransport(int rank, std::vector<Peer> peers, std::vector<TcpLink> links,
               FileDescriptor wake, bool spin);

  absl::StatusOr<size_t> DoTrySend(int peer, std::span<const std::byte> first,
                                   std::span<const std::byte> second) override;
  absl::StatusOr<size_t> DoTryReceive(int peer, std::span<std::byte> first,
                                      std::span<std::byte> second) override;
  absl::StatusOr<Cause> DoWait(std::span<const Interest> interests,
                               absl::Duration timeout) override;
  void DoWake() override;
  void DoSayWaiting(bool waiting) override;
  bool DoSaysWaiting(int peer) override;
  void DoAbort(const Failure& reason) override;
  int64_t DoRetransmissions(int peer) const override;

  absl::StatusOr<int> Poll(absl::Duration timeout);
  // The eventfd is no longer readable; whether it was.
  bool TakeWake();
  // A payload connection has ended; waits a moment for the reason.
  absl::Status Lost(Connections& connections, absl::string_view cause);
  // Reads what has come on the control connection; false once it has ended.
  bool ReadControl(Connections& connections);

  Connections& To(int peer) { return connections_[index_[peer]]; }
  const Connections& To(int peer) const { return connections_[index_[peer]]; }

  const FileDescriptor wake_;  // An eventfd: readable once aborted or woken.
  const bool spin_;
  Yields yields_;
  std::vector<size_t> index_;  // Of connections_, by rank.
  std::vector<Connections> connections_;
  std::vector<pollfd> polled_;  // Used again by every wait.
};

}  // namespace psring

#endif  // PSRING_RING_TCP_TRANSPORT_H_
