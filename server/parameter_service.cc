#include "server/parameter_service.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/errors.h"
#include "common/mutex.h"
#include "common/wire_message.h"
#include "glog/logging.h"
#include "grpcpp/alarm.h"
#include "grpcpp/grpcpp.h"
#include "server/incarnation_fence.h"
#include "server/parameter_stream.h"
#include "server/queue_event.h"
#include "server/turn_queue.h"

namespace psring {
namespace {

// One worker has one stream to a server, and for a moment two when it comes again.
constexpr int kStreamsPerConnection = 4;

// Threads that move messages, add gradients and run the optimizer: as many as slots can
// be worked on at once without taking the workers of this host all processors.
int ThreadCount() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 2, 1, 8);
}

absl::Status ShuttingDown() {
  return PeerLostError("the parameter server is shutting down");
}

}  // namespace

class ParameterServerHost::Impl {
  using Turns = TurnQueue<std::shared_ptr<ParameterStream>>;

 public:
  Impl(Options options, std::shared_ptr<ParameterShard> shard)
      : shard_(std::move(shard)),
        options_({.job = std::move(options.job),
                  .fingerprint = options.fingerprint,
                  .stall_timeout = options.stall_timeout,
                  .shard = shard_,
                  .wire = options.wire,
                  .ready =
                      [this](std::shared_ptr<ParameterStream> stream) {
                        MutexLock lock(&mutex_);
                        turns_.Add(std::move(stream));
                      },
                  .closed = [this](ParameterStream* stream) { Close(stream); }}),
        fence_(shard_->workers()) {}

  absl::StatusOr<int> Start(absl::string_view address) {
    CHECK(server_ == nullptr) << "started twice";
    const int64_t largest_gradient =
        options_.wire.EncodedBytes(shard_->largest_slot_bytes() / int64_t{sizeof(float)});
    const int64_t largest_message =
        std::max(shard_->largest_slot_bytes(), largest_gradient) + kMaxHeaderBytes;
    if (largest_message > std::numeric_limits<int>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a slot of ", shard_->largest_slot_bytes(),
                       " bytes is too large for a message"));
    }
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort(std::string(address), grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(&service_);
    builder.SetMaxReceiveMessageSize(static_cast<int>(largest_message));
    builder.SetMaxSendMessageSize(static_cast<int>(largest_message));
    // A small message must not become a large one here.
    builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
    builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kStreamsPerConnection);
    // Two servers at one port would share its connections.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) {
      Stop();
      return absl::UnavailableError(absl::StrCat("cannot listen at ", address));
    }
    Accept();
    {
      MutexLock lock(&mutex_);
      SetAlarmLocked(std::nullopt);
    }
    // Where several work on turns, one more awaits events.
    const int threads = ThreadCount() == 1 ? 1 : ThreadCount() + 1;
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this] { Poll(); });
    }
    return port;
  }

  void Shutdown(absl::Duration grace) {
    if (server_ == nullptr) return;
    shard_->Abort(ShuttingDown());
    std::vector<std::shared_ptr<ParameterStream>> streams;
    {
      MutexLock lock(&mutex_);
      shutting_down_ = true;
      alarm_.Cancel();
      for (const auto& [stream, owner] : streams_) streams.push_back(owner);
    }
    for (const auto& stream : streams) stream->End(ShuttingDown());
    streams.clear();
    server_->Shutdown(SystemDeadline(grace));
    {
      // The calls are over, but not all of their events have been taken from the queue,
      // and until then a stream may still start an operation.
      MutexLock lock(&mutex_);
      while (live_streams_ > 0) none_live_.Wait(&mutex_);
    }
    Stop();
  }

 private:
  // Ends the threads, with the events that are left.
  void Stop() {
    queue_->Shutdown();
    if (threads_.empty()) Poll();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
    server_.reset();
    queue_.reset();
  }

  // A thread's life. Events are short; the work on requests is done in turns. One thread
  // at a time awaits events: in there it would not hear of turns.
  void Poll() {
    using Status = grpc::CompletionQueue::NextStatus;
    bool looked = false;
    while (true) {
      Turns::Action action{};
      std::shared_ptr<ParameterStream> stream;
      {
        MutexLock lock(&mutex_);
        action = turns_.Next(looked);
        while (action == Turns::Action::kAwait && awaiting_) {
          idle_.Wait(&mutex_);
          action = turns_.Next(/*looked=*/false);
        }
        if (action == Turns::Action::kAwait) awaiting_ = true;
        if (action == Turns::Action::kServe) {
          stream = turns_.Take();
          if (turns_.Next(/*looked=*/true) == Turns::Action::kServe) idle_.NotifyOne();
        }
      }
      looked = false;
      if (stream != nullptr) {
        stream->TakeTurn();
        continue;
      }
      const bool wait = action == Turns::Action::kAwait;
      void* tag = nullptr;
      bool ok = false;
      const Status status = queue_->AsyncNext(
          &tag, &ok,
          wait ? gpr_inf_future(GPR_CLOCK_MONOTONIC) : gpr_inf_past(GPR_CLOCK_MONOTONIC));
      if (wait) {
        MutexLock lock(&mutex_);
        awaiting_ = false;
        idle_.NotifyOne();  // To await events, or the end, which comes to each.
      }
      if (status == Status::GOT_EVENT) {
        QueueEvent::Of(tag)->Run(ok);
      } else if (status == Status::SHUTDOWN && wait) {
        return;
      } else {
        looked = true;
      }
    }
  }

  void Accept() {
    {
      MutexLock lock(&mutex_);
      ++live_streams_;
    }
    const std::shared_ptr<ParameterStream> stream(
        new ParameterStream(&options_, queue_.get()), [this](ParameterStream* ended) {
          delete ended;
          MutexLock lock(&mutex_);
          if (--live_streams_ == 0) none_live_.NotifyAll();
        });
    stream->Await(&service_, [this, stream](bool ok) {
      if (!ok) return;
      Accept();
      Open(stream);
    });
  }

  void Open(const std::shared_ptr<ParameterStream>& stream) {
    absl::Status refusal = stream->TakeHello();
    std::vector<std::shared_ptr<ParameterStream>> replaced;
    if (refusal.ok()) {
      MutexLock lock(&mutex_);
      refusal = AdmitLocked(*stream);
      for (const auto& [other, owner] : streams_) {
        if (other->rank() == stream->rank() &&
            other->incarnation() != stream->incarnation() && refusal.ok()) {
          replaced.push_back(owner);
        }
      }
      if (refusal.ok()) {
        streams_[stream.get()] = stream;
        turns_.Open();
      }
    }
    if (!refusal.ok()) {
      LOG(WARNING) << "refuses a worker: " << refusal.message();
      stream->End(refusal);
      return;
    }
    for (const auto& older : replaced) {
      older->End(absl::FailedPreconditionError(absl::StrFormat(
          "rank %d has connected as another process (incarnation %016x, this one is "
          "%016x)",
          stream->rank(), stream->incarnation(), older->incarnation())));
    }
    // Another thread may have been told of its end before it was in streams_.
    if (!stream->Serve()) Close(stream.get());
  }

  // Why the worker may not take part; OK where it may, and then it speaks for its rank.
  absl::Status AdmitLocked(const ParameterStream& stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (shutting_down_) return ShuttingDown();
    if (fence_.Admit(stream.rank(), stream.incarnation())) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrFormat(
        "rank %d, incarnation %016x, comes again, but another process (incarnation "
        "%016x) "
        "has taken its place",
        stream.rank(), stream.incarnation(), fence_.current(stream.rank()).value_or(0)));
  }

  void Close(ParameterStream* stream) {
    std::shared_ptr<ParameterStream> owner;  // Goes when the lock has been let go of.
    MutexLock lock(&mutex_);
    const auto found = streams_.find(stream);
    if (found == streams_.end()) return;
    owner = std::move(found->second);
    streams_.erase(found);
    turns_.Close();
  }

  // Gives up what has been parked for too long. All pulls have the same patience, so none
  // that comes from now on can be due before the oldest that is here, or before that time
  // from now: one alarm is enough, and it need never be moved.
  void OnAlarm() {
    const auto now = std::chrono::steady_clock::now();
    std::vector<std::shared_ptr<ParameterStream>> streams;
    {
      MutexLock lock(&mutex_);
      for (const auto& [stream, owner] : streams_) streams.push_back(owner);
    }
    std::optional<ParameterStream::Time> next;
    for (const auto& stream : streams) {
      const auto due = stream->ExpirePulls(now);
      if (due.has_value()) next = std::min(next.value_or(*due), *due);
    }
    MutexLock lock(&mutex_);
    if (!shutting_down_) SetAlarmLocked(next);
  }

  // Without a time: a whole patience from now.
  void SetAlarmLocked(std::optional<ParameterStream::Time> due)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto patience = due.value_or(SteadyDeadline(options_.stall_timeout)) -
                          std::chrono::steady_clock::now();
    auto* const event = new OneTimeEvent([this](bool expired) {
      if (expired) OnAlarm();
    });
    alarm_.Set(queue_.get(), SystemDeadline(absl::FromChrono(patience)), event->tag());
  }

  const std::shared_ptr<ParameterShard> shard_;
  const ParameterStream::Options options_;
  ParameterStream::Service service_;
  // While started.
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::thread> threads_;

  Mutex mutex_;
  Turns turns_ ABSL_GUARDED_BY(mutex_);
  bool shutting_down_ ABSL_GUARDED_BY(mutex_) = false;
  IncarnationFence fence_ ABSL_GUARDED_BY(mutex_);
  int live_streams_ ABSL_GUARDED_BY(mutex_) = 0;  // That exist, open or not.
  CondVar none_live_;
  bool awaiting_ ABSL_GUARDED_BY(mutex_) = false;  // A thread is.
  CondVar idle_;  // For the other threads: a turn, or nobody awaits events any more.
  grpc::Alarm alarm_ ABSL_GUARDED_BY(mutex_);
  // The open ones.
  std::map<ParameterStream*, std::shared_ptr<ParameterStream>> streams_
      ABSL_GUARDED_BY(mutex_);
};

ParameterServerHost::ParameterServerHost(Options options,
                                         std::shared_ptr<ParameterShard> shard)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(shard))) {}

ParameterServerHost::~ParameterServerHost() { Shutdown(absl::Seconds(1)); }

absl::StatusOr<int> ParameterServerHost::Start(absl::string_view address) {
  return impl_->Start(address);
}

void ParameterServerHost::Shutdown(absl::Duration grace) { impl_->Shutdown(grace); }

}  // namespace psring
