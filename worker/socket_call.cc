#include "worker/socket_call.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <utility>

#include "common/wire_protocol.h"
#include "glog/logging.h"
#include "grpcpp/create_channel_posix.h"

namespace psring {
namespace {

constexpr char kMethod[] = "/psring.ParameterService/Exchange";

}  // namespace

SocketCall::~SocketCall() {
  CHECK(stream_ == nullptr) << "the call is under way";
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

void SocketCall::Start(FileDescriptor socket, const Options& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  arguments.SetMaxSendMessageSize(static_cast<int>(options.max_message_bytes));
  const int duplicate = fcntl(socket.get(), F_DUPFD_CLOEXEC, 0);
  PCHECK(duplicate >= 0);
  channel_ =
      grpc::CreateCustomInsecureChannelFromFd(options.address, duplicate, arguments);
  context_ = std::make_unique<grpc::ClientContext>();
  context_->AddMetadata(kHelloMetadata, options.hello.SerializeAsString());
  stream_ = grpc::GenericStub(channel_).PrepareCall(context_.get(), kMethod, &queue_);
  stream_->StartCall(Tag(Operation::kStart));
  MutexLock lock(&mutex_);
  socket_ = std::move(socket);
  if (shut_down_) shutdown(socket_.get(), SHUT_RDWR);
}

void SocketCall::Read(grpc::ByteBuffer* message) {
  stream_->Read(message, Tag(Operation::kRead));
}

void SocketCall::Write(const grpc::ByteBuffer& message) {
  stream_->Write(message, Tag(Operation::kWrite));
}

void SocketCall::Finish(grpc::Status* status) {
  stream_->Finish(status, Tag(Operation::kFinish));
}

std::optional<SocketCall::Event> SocketCall::Next(Time deadline) {
  const auto wait = deadline - std::chrono::steady_clock::now();
  const gpr_timespec until = gpr_time_add(
      gpr_now(GPR_CLOCK_MONOTONIC),
      gpr_time_from_nanos(std::chrono::nanoseconds(wait).count(), GPR_TIMESPAN));
  void* tag = nullptr;
  bool ok = false;
  switch (queue_.AsyncNext(&tag, &ok, until)) {
    case grpc::CompletionQueue::GOT_EVENT:
      return Event{.operation = static_cast<Operation>(reinterpret_cast<intptr_t>(tag)),
                   .ok = ok};
    case grpc::CompletionQueue::TIMEOUT:
      return std::nullopt;
    case grpc::CompletionQueue::SHUTDOWN:
      break;
  }
  LOG(FATAL) << "the queue ended before its call";
}

void SocketCall::ShutDown() {
  MutexLock lock(&mutex_);
  shut_down_ = true;
  // It may have been closed from the other side: then there is nothing left to do.
  if (socket_.open()) shutdown(socket_.get(), SHUT_RDWR);
}

void SocketCall::Release() {
  stream_.reset();
  context_.reset();
  channel_.reset();
}

}  // namespace psring
