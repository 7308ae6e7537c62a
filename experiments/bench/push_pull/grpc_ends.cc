#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/errors.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "experiments/bench/push_pull/ends.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace psring {
namespace {

using grpc::ByteBuffer;

constexpr char kMethod[] = "/psring.PushPull/Echo";
// Answers that a server keeps for a worker that does not read, before it reads no more
// itself.
constexpr size_t kMostUnsent = 8;

// As many as psring's server has (server/parameter_service.cc).
int ThreadCount() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 2, 1, 8);
}

// What a completion queue says of a stream; the tag is a pointer to one.
struct Event {
  enum Kind { kBegun, kRead, kWritten };
  void* stream;
  Kind kind;
};

// ----- The server's end -----

// One worker's stream. One thread, that of its queue, until it is stopped.
class EchoStream {
 public:
  EchoStream(int echoes, grpc::AsyncGenericService* service,
             grpc::ServerCompletionQueue* queue)
      : echoes_(echoes) {
    service->RequestCall(&context_, &call_, queue, queue, &begun_);
  }
  EchoStream(const EchoStream&) = delete;
  EchoStream& operator=(const EchoStream&) = delete;

  // From any thread: begins no operation any more, as its queue allows none.
  void Stop() {
    MutexLock lock(&mutex_);
    stopped_ = true;
  }

  // An operation has succeeded; one that has not is the last of its kind.
  void Done(Event::Kind kind) {
    MutexLock lock(&mutex_);
    if (stopped_) return;
    switch (kind) {
      case Event::kBegun:
        break;
      case Event::kRead:
        reading_ = false;
        unsent_.push_back(EchoOf(&incoming_));
        if (unsent_.size() == 1) Write();
        break;
      case Event::kWritten:
        unsent_.pop_front();
        if (!unsent_.empty()) Write();
        break;
    }
    if (reading_ || unsent_.size() >= kMostUnsent) return;
    reading_ = true;
    call_.Read(&incoming_, &read_);
  }

 private:
  ByteBuffer EchoOf(ByteBuffer* message) const {
    ByteBuffer echo;
    if (echoes_ == 1) {
      echo.Swap(message);
      return echo;
    }
    std::vector<grpc::Slice> once, all;
    // It is what gRPC has received, and no compressed one.
    if (!message->Dump(&once).ok()) return echo;
    for (int i = 0; i < echoes_; ++i) all.insert(all.end(), once.begin(), once.end());
    return ByteBuffer(all.data(), all.size());
  }
  void Write() { call_.Write(unsent_.front(), &written_); }

  const int echoes_;
  Mutex mutex_;  // Nobody else wants it before the end.
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter call_{&context_};
  ByteBuffer incoming_;
  std::deque<ByteBuffer> unsent_;  // The first is being written.
  bool reading_ = false;
  Event begun_{this, Event::kBegun};
  Event read_{this, Event::kRead};
  Event written_{this, Event::kWritten};
};

class GrpcServer final : public PushPullServer {
 public:
  ~GrpcServer() override { Stop(); }

  absl::StatusOr<std::string> Open(const PushPullPlan& plan) override {
    Stop();
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.SetMaxReceiveMessageSize(-1);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    service_ = std::make_unique<grpc::AsyncGenericService>();
    builder.RegisterAsyncGenericService(service_.get());
    const int threads = std::min(ThreadCount(), plan.workers);
    for (int i = 0; i < threads; ++i) queues_.push_back(builder.AddCompletionQueue());
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) {
      Stop();
      return absl::UnavailableError("gRPC cannot listen at 127.0.0.1");
    }
    for (int worker = 0; worker < plan.workers; ++worker) {
      streams_.push_back(std::make_unique<EchoStream>(plan.echoes(), service_.get(),
                                                      queues_[worker % threads].get()));
    }
    for (const auto& queue : queues_) {
      threads_.emplace_back([queue = queue.get()] { Serve(queue); });
    }
    return absl::StrCat("127.0.0.1:", port);
  }

 private:
  static void Serve(grpc::CompletionQueue* queue) {
    void* tag = nullptr;
    bool ok = false;
    while (queue->Next(&tag, &ok)) {
      const Event& event = *static_cast<Event*>(tag);
      if (ok) static_cast<EchoStream*>(event.stream)->Done(event.kind);
    }
  }

  void Stop() {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    for (const auto& stream : streams_) stream->Stop();
    for (const auto& queue : queues_) queue->Shutdown();
    if (threads_.empty()) {
      for (const auto& queue : queues_) Serve(queue.get());  // Must be empty.
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    streams_.clear();
    server_.reset();
    queues_.clear();
    service_.reset();
  }

  std::unique_ptr<grpc::AsyncGenericService> service_;
  std::vector<std::unique_ptr<grpc::ServerCompletionQueue>> queues_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::unique_ptr<EchoStream>> streams_;
  std::vector<std::thread> threads_;  // One for each queue.
};

// ----- The worker's end -----

class GrpcWorker final : public PushPullWorker {
 public:
  ~GrpcWorker() override { Close(); }

  absl::Status Connect(const PushPullPlan& plan, std::span<float> gradients,
                       std::span<float> parameters,
                       const std::vector<std::string>& servers) override {
    queue_ = std::make_unique<grpc::CompletionQueue>();
    for (size_t server = 0; server < servers.size(); ++server) {
      links_.push_back(std::make_unique<Link>());
      links_.back()->slots =
          SlotBytesOf(plan, static_cast<int>(server), gradients, parameters);
      links_.back()->Begin(servers[server], queue_.get());
    }
    for (size_t begun = 0; begun < links_.size(); ++begun) {
      ASSIGN_OR_RETURN(const Event event, Next());
      // Kept up until the end: an answer finds it waiting.
      Link& link = *static_cast<Link*>(event.stream);
      link.begun = true;
      link.Read();
    }
    return absl::OkStatus();
  }

  absl::Status Exchange(bool land) override {
    size_t busy = 0;
    for (const auto& link : links_) {
      link->written = link->received = 0;
      if (link->slots.empty()) continue;
      ++busy;
      link->Write();
    }
    while (busy > 0) {
      ASSIGN_OR_RETURN(const Event event, Next());
      Link& link = *static_cast<Link*>(event.stream);
      if (event.kind == Event::kRead) {
        RETURN_IF_ERROR(link.Take(land));
        link.Read();
      } else if (++link.written < link.slots.size()) {
        link.Write();
      }
      if (link.written == link.slots.size() && link.received == link.slots.size()) {
        --busy;
      }
    }
    return absl::OkStatus();
  }

  void Close() override {
    if (queue_ == nullptr) return;
    for (const auto& link : links_) link->context.TryCancel();
    queue_->Shutdown();
    void* tag = nullptr;
    bool ok = false;
    while (queue_->Next(&tag, &ok)) {
    }
    links_.clear();
    queue_.reset();
  }

  bool echoes() const override { return true; }

 private:
  // The stream to one server.
  struct Link {
    void Begin(const std::string& address, grpc::CompletionQueue* queue) {
      grpc::ChannelArguments arguments;
      arguments.SetMaxReceiveMessageSize(-1);
      arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // Its own connection.
      arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
      grpc::GenericStub stub(grpc::CreateCustomChannel(
          address, grpc::InsecureChannelCredentials(), arguments));
      call = stub.PrepareCall(&context, kMethod, queue);
      call->StartCall(&begun_event);
    }
    void Read() { call->Read(&incoming, &read_event); }
    void Write() {
      const std::span<std::byte> push = slots[written].push;
      const grpc::Slice slice(push.data(), push.size(), grpc::Slice::STATIC_SLICE);
      call->Write(ByteBuffer(&slice, 1), &written_event);
    }
    // Answers come in the order of the pushes.
    absl::Status Take(bool land) {
      if (received == slots.size()) {
        return absl::InternalError("an answer came that nobody wanted");
      }
      const std::span<std::byte> answer = slots[received++].answer;
      if (incoming.Length() != answer.size()) {
        return absl::InternalError(absl::StrCat("an answer of ", incoming.Length(),
                                                " bytes instead of ", answer.size()));
      }
      if (!land) return absl::OkStatus();
      std::vector<grpc::Slice> slices;
      if (!incoming.Dump(&slices).ok()) {
        return absl::InternalError("an answer cannot be read");
      }
      std::byte* to = answer.data();
      for (const grpc::Slice& slice : slices) {
        to = std::copy_n(reinterpret_cast<const std::byte*>(slice.begin()), slice.size(),
                         to);
      }
      return absl::OkStatus();
    }

    std::vector<SlotBytes> slots;
    bool begun = false;
    size_t written = 0, received = 0;  // Slots of this operation.
    grpc::ClientContext context;
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call;
    ByteBuffer incoming;
    Event begun_event{this, Event::kBegun};
    Event read_event{this, Event::kRead};
    Event written_event{this, Event::kWritten};
  };

  // What has been done next, on any stream.
  absl::StatusOr<Event> Next() {
    void* tag = nullptr;
    bool ok = false;
    switch (queue_->AsyncNext(&tag, &ok, SystemDeadline(kEndPatience))) {
      case grpc::CompletionQueue::GOT_EVENT:
        break;
      case grpc::CompletionQueue::TIMEOUT:
        return PeerLostError(absl::StrCat("nothing for ",
                                          absl::FormatDuration(kEndPatience),
                                          "; missing: ", Missing()));
      case grpc::CompletionQueue::SHUTDOWN:
        return absl::InternalError("the queue is shut down");
    }
    const Event event = *static_cast<Event*>(tag);
    if (ok) return event;
    return PeerLostError(absl::StrCat(
        "the stream to server ", IndexOf(static_cast<Link*>(event.stream)), " broke"));
  }

  size_t IndexOf(const Link* link) const {
    size_t server = 0;
    while (links_[server].get() != link) ++server;
    return server;
  }

  std::string Missing() const {
    std::vector<std::string> missing;
    for (size_t server = 0; server < links_.size(); ++server) {
      const Link& link = *links_[server];
      const size_t slots = link.slots.size();
      if (!link.begun || link.written < slots || link.received < slots) {
        missing.push_back(absl::StrCat("server ", server));
      }
    }
    return absl::StrJoin(missing, ", ");
  }

  std::unique_ptr<grpc::CompletionQueue> queue_;
  std::vector<std::unique_ptr<Link>> links_;  // By server.
};

}  // namespace

std::unique_ptr<PushPullServer> MakeGrpcServer() {
  return std::make_unique<GrpcServer>();
}

std::unique_ptr<PushPullWorker> MakeGrpcWorker() {
  return std::make_unique<GrpcWorker>();
}

}  // namespace psring
