// What ranks say to each other beside their payload, on a connection of its own: that
// one waits, and why one leaves. Pure.
#ifndef PSRING_RING_CONTROL_MESSAGE_H_
#define PSRING_RING_CONTROL_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "proto/coordinator.pb.h"

namespace psring {

// The bytes of "I am alive, and wait for others", or "no more".
std::string EncodeWaiting(bool waiting);
// The bytes of "I leave, because". A reason too long to send is said to be so.
std::string EncodeReason(const Failure& reason);

// What a peer has said so far. Takes any bytes; what does not follow the protocol ends
// the conversation, and later bytes are ignored.
class ControlReader {
 public:
  // The next bytes of the stream, cut anywhere.
  void Take(std::span<const std::byte> bytes);

  // Whether the peer waits, as far as it has said so.
  bool waiting() const { return waiting_; }
  // Why it leaves; nothing follows it.
  const std::optional<Failure>& reason() const { return reason_; }
  // Nothing more is to be learnt.
  bool ended() const { return ended_; }

 private:
  std::string unread_;  // Part of one message.
  bool waiting_ = false;
  std::optional<Failure> reason_;
  bool ended_ = false;
};

}  // namespace psring

#endif  // PSRING_RING_CONTROL_MESSAGE_H_
