// Whose message a server works on next.
#ifndef PSRING_SERVER_TURN_QUEUE_H_
#define PSRING_SERVER_TURN_QUEUE_H_

#include <deque>
#include <memory_resource>
#include <utility>

namespace psring {

// Streams with a message take turns, one message each, in the order in which they came.
// A stream reads its next message after its turn, so it is in the queue once, and one
// with much to say waits like those with little.
//
// That is fair only among the streams that have been heard, and gRPC 1.51 does not look
// at its sockets while its completion queue has events: a stream whose next messages are
// in memory already would be read, served and read again, and nobody else heard. So
// before every turn, where there is more than one stream, a thread looks for events
// without waiting until there is none: each such look that finds the queue empty has
// looked at the sockets.
//
// Pure; not thread-safe. Allocates only for more streams than there have been at once.
template <typename Stream>
class TurnQueue {
 public:
  enum class Action {
    kServe,  // Take() a turn.
    kLook,   // For an event, without waiting; then ask again.
    kAwait,  // An event.
  };

  // How many streams there are, with a message or without.
  void Open() { ++open_; }
  void Close() { --open_; }

  // A message of the stream has come; none of its is here.
  void Add(Stream stream) { turns_.push_back(std::move(stream)); }

  // What a thread is to do next that has looked, or not, since it did something last, and
  // found no event.
  Action Next(bool looked) const {
    if (turns_.empty()) return Action::kAwait;
    return looked || open_ < 2 ? Action::kServe : Action::kLook;
  }

  // The stream whose turn it is; there is one.
  Stream Take() {
    Stream next = std::move(turns_.front());
    turns_.pop_front();
    return next;
  }

 private:
  std::pmr::unsynchronized_pool_resource memory_;
  std::pmr::deque<Stream> turns_{&memory_};
  int open_ = 0;
};

}  // namespace psring

#endif  // PSRING_SERVER_TURN_QUEUE_H_
