// Messages between the launcher of a benchmark and its ranks: a Unix socket in a folder
// of the launcher's, one message per packet. It works alike for ranks that the launcher
// starts and for ranks that a program such as mpirun starts.
#ifndef PSRING_EXPERIMENTS_BENCH_CHANNEL_H_
#define PSRING_EXPERIMENTS_BENCH_CHANNEL_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/tcp_socket.h"
#include "google/protobuf/message_lite.h"

namespace psring {

// One end of a connection. One thread. A message may have about 200,000 bytes, what the
// system lets a packet have.
class BenchChannel {
 public:
  BenchChannel() = default;  // Not connected.

  // kUnavailable: nobody listens at `path`. kInvalidArgument: it is too long for a
  // socket.
  static absl::StatusOr<BenchChannel> Connect(const std::string& path);

  // kUnavailable: the other end is gone.
  absl::Status Send(const google::protobuf::MessageLite& message);

  // Blocks until a message is there; poll descriptor() first where that is not wanted.
  // kUnavailable: the other end is gone.
  absl::Status Receive(google::protobuf::MessageLite* message);

  // -1 while not connected.
  int descriptor() const { return socket_.get(); }

 private:
  friend class BenchListener;
  explicit BenchChannel(FileDescriptor socket) : socket_(std::move(socket)) {}

  FileDescriptor socket_;
};

class BenchListener {
 public:
  // `path` does not exist yet; it stays. Errors as for Connect.
  static absl::StatusOr<BenchListener> Listen(const std::string& path);

  // Blocks until somebody connects.
  absl::StatusOr<BenchChannel> Accept();

  int descriptor() const { return socket_.get(); }

 private:
  explicit BenchListener(FileDescriptor socket) : socket_(std::move(socket)) {}

  FileDescriptor socket_;
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_CHANNEL_H_
