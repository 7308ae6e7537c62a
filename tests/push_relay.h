// A relay between workers and a parameter server that lets exactly so much of one push
// through.
#ifndef PSRING_TESTS_PUSH_RELAY_H_
#define PSRING_TESTS_PUSH_RELAY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "common/tcp_socket.h"

namespace psring {

// Workers connect to it where they look for the server. The first to come is the victim,
// whose messages are watched; all other connections are passed on as they are.
//
// Threads of its own move the bytes; any thread may wait for what they come to. The
// destructor closes every connection.
class PushRelay {
 public:
  enum class Cut {
    kBefore,  // Of the push and what follows it, nothing reaches the server.
    kWithin,  // Half of its bytes do.
    kAfter,   // All of them do, but no answer reaches the worker any more.
  };
  struct Options {
    std::string host;  // Where it listens.
    int port = 0;
    std::string server;      // HOST:PORT
    int64_t push_bytes = 0;  // Payload of a push; nothing else that is sent has so much.
    int64_t push = 0;        // The one to cut, counted from 0.
    Cut cut = Cut::kBefore;
  };

  // kUnavailable: it cannot listen there.
  static absl::StatusOr<std::unique_ptr<PushRelay>> Start(Options options);
  ~PushRelay();

  // Blocks until the victim has connected; false where the timeout passed.
  bool AwaitVictim(absl::Duration timeout);
  // Blocks until the first byte of the push has come and goes no further (kBefore), half
  // of it has been passed on (kWithin), or an answer is held back that shows that the
  // server has all of it (kAfter); false where the timeout passed.
  bool AwaitCut(absl::Duration timeout);

 private:
  struct Link {
    FileDescriptor worker;
    FileDescriptor server;
    std::thread requests;
    std::thread answers;
  };
  // How far the victim's stream of messages has come.
  struct Position {
    std::vector<std::byte> head;       // Of the next message.
    int64_t message_left = 0;          // Bytes of the current message.
    int64_t pushes = 0;                // That have begun.
    std::optional<int64_t> until_cut;  // Bytes of the push that may still pass.
    bool cut = false;                  // Nothing passes any more.
  };

  // In this order; kHoldingBack only of Cut::kAfter.
  enum class Stage { kListening, kVictimHere, kHoldingBack, kCut };

  PushRelay(Options options, FileDescriptor listener);

  void Accept();
  void RelayRequests(Link* link, bool watched);
  void RelayAnswers(Link* link, bool watched);
  // How many bytes of the next frame are to pass.
  size_t BytesBeforeCut(std::span<const std::byte> frame, Position* position);
  // An answer has come for the victim; true: it is to be held back.
  bool HoldsBack() ABSL_LOCKS_EXCLUDED(mutex_);
  void Enter(Stage stage) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Await(Stage stage, absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);

  const Options options_;
  const FileDescriptor listener_;

  Mutex mutex_;
  CondVar changed_;
  Stage stage_ ABSL_GUARDED_BY(mutex_) = Stage::kListening;

  std::vector<std::unique_ptr<Link>>
      links_;  // The accepting thread's until it has ended.
  std::thread accepting_;
};

}  // namespace psring

#endif  // PSRING_TESTS_PUSH_RELAY_H_
