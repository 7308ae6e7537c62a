#include "common/coordinator_client.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <chrono>
#include <deque>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/coordinator.h"
#include "common/errors.h"
#include "common/grpc_status.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "grpcpp/grpcpp.h"
#include "proto/coordinator.grpc.pb.h"

namespace psring {
namespace {

// How long a coordinator that has been reached may take to answer beyond the time that
// it was asked to wait, before it is given up.
constexpr absl::Duration kAnswerMargin = absl::Seconds(10);
// One round of a wait without an end.
constexpr absl::Duration kRound = absl::Seconds(30);

uint64_t NewIncarnation() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

std::string HostName() {
  utsname name;
  return uname(&name) == 0 ? name.nodename : "unknown host";
}

class Client final : public CoordinatorClient {
 public:
  explicit Client(const Options& options) : options_(options) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    channel_ = grpc::CreateCustomChannel(options_.address,
                                         grpc::InsecureChannelCredentials(), arguments);
    stub_ = CoordinatorService::NewStub(channel_);
  }

  ~Client() override {
    if (stream_ == nullptr) return;
    context_.TryCancel();
    StopWriter();
    if (writer_.joinable()) writer_.join();
    if (reader_.joinable()) reader_.join();
  }

  absl::Status Start() {
    if (!channel_->WaitForConnected(std::chrono::system_clock::now() +
                                    ToChronoNanos(options_.rendezvous_timeout))) {
      return RendezvousTimeoutError(absl::StrCat(
          ToString(options_.member), " found no coordinator at ", options_.address,
          " within ", absl::FormatDuration(options_.rendezvous_timeout)));
    }
    stream_ = stub_->Session(&context_);
    SessionRequest request;
    Hello& hello = *request.mutable_hello();
    hello.set_protocol_version(kProtocolVersion);
    hello.set_job(options_.job);
    *hello.mutable_member() = options_.member;
    hello.set_incarnation(incarnation_);
    hello.set_host(HostName());
    hello.set_process_id(getpid());
    SessionEvent event;
    if (!stream_->Write(request) || !stream_->Read(&event) || !event.has_welcome()) {
      return FromGrpc(stream_->Finish());
    }
    spec_ = event.welcome().spec();
    reader_ = std::thread([this] { ReadEvents(); });
    writer_ = std::thread([this] { WriteRecords(); });
    return absl::OkStatus();
  }

  const JobSpec& spec() const override { return spec_; }
  uint64_t incarnation() const override { return incarnation_; }

  absl::Status Put(const std::string& key, const std::string& value) override {
    PutRequest request;
    request.set_job(options_.job);
    request.set_key(key);
    request.set_value(value);
    PutResponse response;
    return Call(absl::ZeroDuration(), [&](grpc::ClientContext* context) {
      return stub_->Put(context, request, &response);
    });
  }

  absl::StatusOr<std::string> Get(const std::string& key) override {
    GetRequest request;
    request.set_job(options_.job);
    request.set_key(key);
    request.set_timeout_ms(absl::ToInt64Milliseconds(options_.rendezvous_timeout));
    GetResponse response;
    RETURN_IF_ERROR(Call(options_.rendezvous_timeout, [&](grpc::ClientContext* context) {
      return stub_->Get(context, request, &response);
    }));
    return response.value();
  }

  absl::Status Barrier(const std::string& name) override {
    return BarrierRound(name, options_.rendezvous_timeout);
  }

  absl::Status BarrierWithoutDeadline(const std::string& name) override {
    absl::Status status;
    do {
      status = BarrierRound(name, kRound);
    } while (ExitCodeOf(status) == ExitCode::kRendezvousTimeout);
    return status;
  }

  void Report(Record record) override {
    MutexLock lock(&mutex_);
    records_.push_back(std::move(record));
    wake_writer_.NotifyOne();
  }

  absl::Status Leave(const absl::Status& outcome) override {
    StopWriter();
    JoinOrCancel(&writer_, &writer_ended_);
    SessionRequest request;
    request.mutable_goodbye();
    if (!outcome.ok()) {
      *request.mutable_goodbye()->mutable_failure() = ToFailure(outcome);
    }
    {
      MutexLock lock(&mutex_);
      leaving_ = true;
    }
    stream_->WriteLast(request, grpc::WriteOptions());
    JoinOrCancel(&reader_, &reader_ended_);  // Ends when the coordinator ends the stream.
    const absl::Status reason = aborts_.reason();
    return reason.ok() ? outcome : reason;
  }

  AbortSource& aborts() override { return aborts_; }

 private:
  static std::chrono::nanoseconds ToChronoNanos(absl::Duration duration) {
    return absl::ToChronoNanoseconds(duration);
  }

  // One unary call with a deadline, given up when the job is aborted.
  template <typename Invoke>
  absl::Status Call(absl::Duration expected, Invoke invoke) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         ToChronoNanos(expected + kAnswerMargin));
    AbortSource::Registration abort(
        &aborts_, [&context](const absl::Status&) { context.TryCancel(); });
    const grpc::Status status = invoke(&context);
    if (status.ok()) return absl::OkStatus();
    if (absl::Status reason = aborts_.reason(); !reason.ok()) return reason;
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED &&
        status.error_details().empty()) {
      return PeerLostError(
          absl::StrCat("the coordinator at ", options_.address, " does not answer"));
    }
    return FromGrpc(status);
  }

  absl::Status BarrierRound(const std::string& name, absl::Duration timeout) {
    BarrierRequest request;
    request.set_job(options_.job);
    request.set_name(name);
    *request.mutable_member() = options_.member;
    request.set_timeout_ms(absl::ToInt64Milliseconds(timeout));
    BarrierResponse response;
    return Call(timeout, [&](grpc::ClientContext* context) {
      return stub_->Barrier(context, request, &response);
    });
  }

  // Joins a thread that works on the stream; one that a silent coordinator holds up is
  // freed by giving up the stream.
  void JoinOrCancel(std::thread* thread, const bool* ended) {
    {
      MutexLock lock(&mutex_);
      const auto deadline = SteadyDeadline(kAnswerMargin);
      bool expired = false;
      while (!*ended && !expired) expired = thread_ended_.WaitUntil(&mutex_, deadline);
      if (!*ended) context_.TryCancel();
    }
    thread->join();
  }

  void SetEnded(bool* ended) {
    MutexLock lock(&mutex_);
    *ended = true;
    thread_ended_.NotifyAll();
  }

  void ReadEvents() {
    SessionEvent event;
    while (stream_->Read(&event)) {
      if (event.has_abort()) aborts_.Abort(FromFailure(event.abort()));
    }
    const grpc::Status status = stream_->Finish();
    bool left = false;
    {
      MutexLock lock(&mutex_);
      left = leaving_ && status.ok();
    }
    if (!left) AbortAsLost();
    SetEnded(&reader_ended_);
  }

  void AbortAsLost() {
    aborts_.Abort(PeerLostError(absl::StrCat(
        ToString(options_.member), " lost the coordinator at ", options_.address)));
  }

  void WriteRecords() {
    SessionRequest request;
    while (true) {
      {
        MutexLock lock(&mutex_);
        while (records_.empty() && !stop_writer_) wake_writer_.Wait(&mutex_);
        if (records_.empty()) break;
        *request.mutable_record() = std::move(records_.front());
        records_.pop_front();
      }
      // A broken stream is the reader's to report; the rest has nobody to go to.
      if (!stream_->Write(request)) break;
    }
    SetEnded(&writer_ended_);
  }

  void StopWriter() {
    MutexLock lock(&mutex_);
    stop_writer_ = true;
    wake_writer_.NotifyOne();
  }

  const Options options_;
  const uint64_t incarnation_ = NewIncarnation();
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<CoordinatorService::Stub> stub_;
  grpc::ClientContext context_;  // Of the session.
  std::unique_ptr<grpc::ClientReaderWriter<SessionRequest, SessionEvent>> stream_;
  JobSpec spec_;
  AbortSource aborts_;

  Mutex mutex_;
  CondVar wake_writer_;
  std::deque<Record> records_ ABSL_GUARDED_BY(mutex_);
  bool stop_writer_ ABSL_GUARDED_BY(mutex_) = false;
  bool leaving_ ABSL_GUARDED_BY(mutex_) = false;
  CondVar thread_ended_;
  bool reader_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool writer_ended_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread reader_;
  std::thread writer_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinatorClient>> CoordinatorClient::Join(
    const Options& options) {
  auto client = std::make_unique<Client>(options);
  RETURN_IF_ERROR(client->Start());
  return client;
}

}  // namespace psring
