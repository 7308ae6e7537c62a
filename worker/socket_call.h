// A streaming gRPC call over a connection of its own that can be ended at any moment.
// Private to grpc_parameter_channel.
#ifndef PSRING_WORKER_SOCKET_CALL_H_
#define PSRING_WORKER_SOCKET_CALL_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/mutex.h"
#include "common/tcp_socket.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "proto/parameter_server.pb.h"

namespace psring {

// To cancel a call does not end it: what has been handed to a connection stays there, and
// a frozen server keeps it there. So the socket is ours, gRPC works on a duplicate, and
// shutting the socket down brings all operations of the call back, whatever the server
// does.
//
// One thread owns the call: it starts it and takes its events, and after the last of them
// releases it. Only Write and ShutDown may be any thread's.
class SocketCall {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Operation : intptr_t { kStart = 1, kRead, kWrite, kFinish };
  struct Event {
    Operation operation;
    bool ok;  // As of gRPC's completion queues.
  };
  struct Options {
    std::string address;  // For gRPC's messages; the socket is connected to it.
    WorkerHello hello;
    int64_t max_message_bytes = 0;
  };

  SocketCall() = default;
  // Not started, or released.
  ~SocketCall();
  SocketCall(const SocketCall&) = delete;
  SocketCall& operator=(const SocketCall&) = delete;

  // Each of these ends as an event of its name; at most one of a kind is under way. What
  // is pointed to stays until then.
  void Start(FileDescriptor socket, const Options& options);
  void Read(grpc::ByteBuffer* message);
  void Write(const grpc::ByteBuffer& message);
  // When no other is under way.
  void Finish(grpc::Status* status);

  // The next event; none by the deadline.
  std::optional<Event> Next(Time deadline);

  // Before or after Start, and more than once.
  void ShutDown();

  // After the last event: gRPC's last references to the connection go, and whatever had
  // been handed to it with them.
  void Release();

 private:
  static void* Tag(Operation operation) { return reinterpret_cast<void*>(operation); }

  grpc::CompletionQueue queue_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;

  Mutex mutex_;
  FileDescriptor socket_ ABSL_GUARDED_BY(mutex_);
  bool shut_down_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace psring

#endif  // PSRING_WORKER_SOCKET_CALL_H_
