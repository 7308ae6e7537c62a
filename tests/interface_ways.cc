#include "tests/interface_ways.h"

#include <unistd.h>

#include <deque>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/mutex.h"
#include "glog/logging.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace psring {
namespace {

using grpc::ByteBuffer;
using Take = std::function<void(ByteBuffer* message)>;
using Answer = std::function<ByteBuffer(ByteBuffer* request)>;

constexpr char kMethod[] = "/psring.InterfaceBenchmark/Exchange";
// Longer than one way in one round takes.
constexpr absl::Duration kCallLimit = absl::Minutes(10);
constexpr char kNoAnswer[] = "the server has gone, or did not answer within 10 minutes";

// What is to happen when an operation on a completion queue is done; its tag is a pointer
// to one.
using Event = std::function<void()>;

void* Then(Event event) { return new Event(std::move(event)); }

// Until an operation fails.
void Poll(grpc::CompletionQueue* queue) {
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok) && ok) {
    const std::unique_ptr<Event> event(static_cast<Event*>(tag));
    (*event)();
  }
}

// What a stream has to write: one message at a time, the first. Any thread.
class Outbox {
 public:
  explicit Outbox(Take write) : write_(std::move(write)) {}

  void Add(const ByteBuffer& message) {
    ByteBuffer* first = nullptr;
    {
      MutexLock lock(&mutex_);
      unsent_.push_back(message);
      if (unsent_.size() > 1) return;
      first = &unsent_.front();
    }
    write_(first);
  }
  // The first has been written.
  void Written() {
    ByteBuffer* first = nullptr;
    {
      MutexLock lock(&mutex_);
      unsent_.pop_front();
      if (unsent_.empty()) return;
      first = &unsent_.front();
    }
    write_(first);
  }

 private:
  const Take write_;
  Mutex mutex_;
  std::deque<ByteBuffer> unsent_ ABSL_GUARDED_BY(mutex_);
};

// Either end of a stream. Reads on when a message has been handled.
template <typename Call>
class QueueStream {
 public:
  QueueStream(Call* call, Take take)
      : call_(*call), take_(std::move(take)), outbox_([this](ByteBuffer* message) {
          call_.Write(*message, Then([this] { outbox_.Written(); }));
        }) {}

  void Send(const ByteBuffer& message) { outbox_.Add(message); }
  void Read() {
    call_.Read(&incoming_, Then([this] {
      take_(&incoming_);
      Read();
    }));
  }

 private:
  Call& call_;
  const Take take_;
  ByteBuffer incoming_;
  Outbox outbox_;
};

template <typename Reactor>
class CallbackStream : public Reactor {
 public:
  explicit CallbackStream(Take take)
      : take_(std::move(take)),
        outbox_([this](ByteBuffer* message) { this->StartWrite(message); }) {}

  void Send(const ByteBuffer& message) { outbox_.Add(message); }
  void Read() { this->StartRead(&incoming_); }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    take_(&incoming_);
    Read();
  }
  void OnWriteDone(bool ok) override {
    if (ok) outbox_.Written();
  }

 private:
  const Take take_;
  ByteBuffer incoming_;
  Outbox outbox_;
};

// ----- The worker's end -----

grpc::GenericStub NewStub(int port) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // A connection of its own.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::GenericStub(grpc::CreateCustomChannel(
      absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials(), arguments));
}

struct Context : grpc::ClientContext {
  Context() { set_deadline(SystemDeadline(kCallLimit)); }
};

class PolledQueue : public grpc::CompletionQueue {
 public:
  void Start() {
    std::thread([this] {
      Poll(this);
      LOG(FATAL) << kNoAnswer;
    }).detach();
  }
};

class QueueStreamConnection final : public InterfaceConnection {
 public:
  QueueStreamConnection(int port, Take take)
      : call_(NewStub(port).PrepareCall(&context_, kMethod, &queue_)),
        stream_(call_.get(), std::move(take)) {
    void* tag = nullptr;
    bool ok = false;
    call_->StartCall(tag);
    CHECK(queue_.Next(&tag, &ok) && ok) << kNoAnswer;
    stream_.Read();
    queue_.Start();
  }
  void Send(const ByteBuffer& request) override { stream_.Send(request); }

 private:
  Context context_;
  PolledQueue queue_;
  const std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  QueueStream<grpc::GenericClientAsyncReaderWriter> stream_;
};

class CallbackStreamConnection final : public InterfaceConnection {
 public:
  CallbackStreamConnection(int port, Take take) : stream_(std::move(take)) {
    NewStub(port).PrepareBidiStreamingCall(&context_, kMethod, {}, &stream_);
    stream_.AddHold();  // Requests come from a thread that is not gRPC's.
    stream_.Read();
    stream_.StartCall();
  }
  void Send(const ByteBuffer& request) override { stream_.Send(request); }

 private:
  struct Stream final : CallbackStream<grpc::ClientBidiReactor<ByteBuffer, ByteBuffer>> {
    using CallbackStream::CallbackStream;
    void OnReadDone(bool ok) override {
      CHECK(ok) << kNoAnswer;
      CallbackStream::OnReadDone(ok);
    }
  };
  Context context_;
  Stream stream_;
};

// A call with what it needs until its end.
struct UnaryCall {
  Context context;
  ByteBuffer request, answer;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncResponseReader<ByteBuffer>> reader;
};

class UnaryConnection final : public InterfaceConnection {
 public:
  UnaryConnection(bool queue, int port, Take take)
      : stub_(NewStub(port)), take_(std::move(take)) {
    if (queue) queue_.emplace().Start();
  }

  void Send(const ByteBuffer& request) override {
    const auto call = std::make_shared<UnaryCall>();
    call->request = request;
    if (!queue_.has_value()) {
      stub_.UnaryCall(&call->context, kMethod, {}, &call->request, &call->answer,
                      [this, call](const grpc::Status& status) {
                        CHECK(status.ok()) << status.error_message();
                        take_(&call->answer);
                      });
      return;
    }
    call->reader =
        stub_.PrepareUnaryCall(&call->context, kMethod, call->request, &*queue_);
    call->reader->StartCall();
    call->reader->Finish(&call->answer, &call->status, Then([this, call] {
      CHECK(call->status.ok()) << call->status.error_message();
      take_(&call->answer);
    }));
  }

 private:
  grpc::GenericStub stub_;
  const Take take_;
  std::optional<PolledQueue> queue_;
};

// ----- The server's end -----

// Accepts a call, and when it has ended another one.
class QueueServerCall {
 public:
  QueueServerCall(bool stream, grpc::AsyncGenericService* service,
                  grpc::ServerCompletionQueue* queue, const Answer* answer)
      : is_stream_(stream), service_(*service), queue_(queue), answer_(*answer) {
    Accept();
  }

 private:
  struct Call {
    explicit Call(const Answer& answer)
        : stream(&call,
                 [this, &answer](ByteBuffer* request) { stream.Send(answer(request)); }) {
    }
    grpc::GenericServerContext context;
    grpc::GenericServerAsyncReaderWriter call{&context};
    ByteBuffer request;                                        // Of a unary call.
    QueueStream<grpc::GenericServerAsyncReaderWriter> stream;  // Of a stream.
  };

  void Accept() {
    call_.emplace(answer_);
    service_.RequestCall(&call_->context, &call_->call, queue_, queue_, Then([this] {
      if (is_stream_) {
        call_->stream.Read();
      } else {
        ReadAndAnswer();
      }
    }));
  }
  void ReadAndAnswer() {
    call_->call.Read(&call_->request, Then([this] {
      call_->call.WriteAndFinish(answer_(&call_->request), {}, grpc::Status::OK,
                                 Then([this] { Accept(); }));
    }));
  }

  const bool is_stream_;
  grpc::AsyncGenericService& service_;
  grpc::ServerCompletionQueue* const queue_;
  const Answer& answer_;
  std::optional<Call> call_;
};

class CallbackServerStream final : public CallbackStream<grpc::ServerGenericBidiReactor> {
 public:
  explicit CallbackServerStream(const Answer& answer)
      : CallbackStream([this, &answer](ByteBuffer* request) { Send(answer(request)); }) {
    Read();
  }
  void OnDone() override { delete this; }
};

class CallbackServerUnary final : public grpc::ServerGenericBidiReactor {
 public:
  explicit CallbackServerUnary(const Answer& answer) : answer_(answer) {
    StartRead(&message_);
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;  // The worker has gone.
    message_ = answer_(&message_);
    StartWriteAndFinish(&message_, {}, grpc::Status::OK);
  }
  void OnDone() override { delete this; }

 private:
  const Answer& answer_;
  ByteBuffer message_;
};

class CallbackService final : public grpc::CallbackGenericService {
 public:
  CallbackService(bool stream, const Answer* answer)
      : stream_(stream), answer_(*answer) {}
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext*) override {
    if (stream_) return new CallbackServerStream(answer_);
    return new CallbackServerUnary(answer_);
  }

 private:
  const bool stream_;
  const Answer& answer_;
};

}  // namespace

std::unique_ptr<InterfaceConnection> ConnectInterface(const Interface& interface,
                                                      int port, Take take) {
  if (!interface.stream) {
    return std::make_unique<UnaryConnection>(interface.queue, port, std::move(take));
  }
  if (interface.queue) {
    return std::make_unique<QueueStreamConnection>(port, std::move(take));
  }
  return std::make_unique<CallbackStreamConnection>(port, std::move(take));
}

void ServeInterface(const Interface& interface, int max_requests, Answer answer,
                    const std::function<void(int port)>& listening) {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(-1);
  grpc::AsyncGenericService queue_service;
  CallbackService callback_service(interface.stream, &answer);
  std::unique_ptr<grpc::ServerCompletionQueue> queue;
  if (interface.queue) {
    builder.RegisterAsyncGenericService(&queue_service);
    queue = builder.AddCompletionQueue();
  } else {
    builder.RegisterCallbackGenericService(&callback_service);
  }
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  CHECK(server != nullptr);
  std::vector<std::unique_ptr<QueueServerCall>> calls;
  if (interface.queue) {
    // Twice, so that none waits for another whose end has not been noticed yet.
    for (int i = 0; i < 2 * max_requests; ++i) {
      calls.push_back(std::make_unique<QueueServerCall>(interface.stream, &queue_service,
                                                        queue.get(), &answer));
    }
    for (int i = 0; i < interface.server_threads; ++i) {
      std::thread([&] { Poll(queue.get()); }).detach();
    }
  }
  listening(port);
  while (true) pause();
}

}  // namespace psring
