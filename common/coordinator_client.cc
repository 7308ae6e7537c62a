#include "common/coordinator_client.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/coordinator.h"
#include "common/errors.h"
#include "common/grpc_status.h"
#include "common/liveness.h"
#include "common/mutex.h"
#include "common/processor_time.h"
#include "common/record_queue.h"
#include "common/status_macros.h"
#include "common/time_source.h"
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
// One quick answer is enough, and of so many one is rarely slow.
constexpr int kClockPings = 12;

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
    Stop();
    for (std::thread* thread : {&pulse_, &writer_, &reader_}) {
      if (thread->joinable()) thread->join();
    }
  }

  absl::Status Start() {
    if (!channel_->WaitForConnected(SystemDeadline(options_.rendezvous_timeout))) {
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
    // The pulse gives up a coordinator that accepts and then falls silent.
    pulse_ = std::thread([this] { Pulse(); });
    if (!stream_->Write(request) || !stream_->Read(&event) || !event.has_welcome()) {
      const absl::Status status = FromGrpc(stream_->Finish());
      const absl::Status reason = aborts_.reason();
      return reason.ok() ? status : reason;
    }
    spec_ = event.welcome().spec();
    {
      MutexLock lock(&mutex_);
      liveness_ = SettingsOf(spec_.experiment().liveness());
      heard_ = time_.Elapsed();
    }
    reader_ = std::thread([this] { ReadEvents(); });
    writer_ = std::thread([this] { Write(); });
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

  absl::StatusOr<std::vector<StepConstants>> GetSchedule(int64_t first_update,
                                                         int64_t count) override {
    ScheduleRequest request;
    request.set_job(options_.job);
    request.set_first_update(first_update);
    request.set_count(count);
    ScheduleResponse response;
    RETURN_IF_ERROR(Call(absl::ZeroDuration(), [&](grpc::ClientContext* context) {
      return stub_->GetSchedule(context, request, &response);
    }));
    const int steps = response.learning_rate_size();
    if (response.adam_step_size_size() != steps ||
        response.adam_root_scale_size() != steps) {
      return absl::InternalError(
          "the coordinator's schedule has lists of unequal length");
    }
    std::vector<StepConstants> schedule;
    for (int i = 0; i < steps; ++i) {
      schedule.push_back({.learning_rate = response.learning_rate(i),
                          .adam_step_size = response.adam_step_size(i),
                          .adam_root_scale = response.adam_root_scale(i)});
    }
    return schedule;
  }

  absl::StatusOr<ClockOffset> CompareClock(const TimeSource& clock) override {
    std::vector<ClockPing> pings;
    for (int i = 0; i < kClockPings; ++i) {
      TimeResponse response;
      ClockPing ping = {.asked = clock.Elapsed()};
      RETURN_IF_ERROR(Call(absl::ZeroDuration(), [&](grpc::ClientContext* context) {
        return stub_->GetTime(context, TimeRequest(), &response);
      }));
      ping.answered = clock.Elapsed();
      ping.other = absl::Nanoseconds(response.time_ns());
      pings.push_back(ping);
    }
    return EstimateOffset(pings);
  }

  void Report(absl::FunctionRef<void(RecordBatch& batch)> add) override {
    MutexLock lock(&mutex_);
    if (records_.Add(add)) wake_writer_.NotifyOne();
  }

  void SetActivity(std::function<Activity()> activity) override {
    MutexLock lock(&activity_mutex_);
    activity_ = std::move(activity);
  }

  void SetOrders(std::function<void(const CheckpointOrder&)> handler) override {
    MutexLock lock(&orders_mutex_);
    orders_ = std::move(handler);
    if (orders_ && order_) orders_(*order_);
  }

  void Reply(const CheckpointReply& reply) override {
    MutexLock lock(&mutex_);
    replies_.push_back(reply);
    wake_writer_.NotifyOne();
  }

  absl::Status Leave(const absl::Status& outcome) override {
    Stop();
    JoinOrCancel(&pulse_, &pulse_ended_);
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
    // Ends when the coordinator ends the stream.
    if (!JoinOrCancel(&reader_, &reader_ended_) && !outcome.ok()) {
      return Annotate(outcome, absl::StrCat("the coordinator at ", options_.address,
                                            " does not answer any more"));
    }
    const absl::Status reason = aborts_.reason();
    return reason.ok() ? outcome : reason;
  }

  AbortSource& aborts() override { return aborts_; }

 private:
  // One unary call with a deadline, given up when the job is aborted.
  template <typename Invoke>
  absl::Status Call(absl::Duration expected, Invoke invoke) {
    RETURN_IF_ERROR(aborts_.reason());
    grpc::ClientContext context;
    context.set_deadline(SystemDeadline(expected + kAnswerMargin));
    AbortSource::Registration abort(
        &aborts_, [&context](const absl::Status&) { context.TryCancel(); });
    const grpc::Status status = invoke(&context);
    if (status.ok()) return absl::OkStatus();
    if (absl::Status reason = aborts_.reason(); !reason.ok()) return reason;
    // Without details it is gRPC's own error, and not the coordinator's answer.
    if (status.error_details().empty()) {
      return PeerLostError(absl::StrCat("the coordinator at ", options_.address,
                                        " does not answer (", status.error_message(),
                                        ")"));
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
  // freed by giving up the stream, and the result is false.
  bool JoinOrCancel(std::thread* thread, const bool* ended) {
    bool in_time = false;
    {
      MutexLock lock(&mutex_);
      const auto deadline = SteadyDeadline(kAnswerMargin);
      bool expired = false;
      while (!*ended && !expired) expired = thread_ended_.WaitUntil(&mutex_, deadline);
      in_time = *ended;
    }
    if (!in_time) context_.TryCancel();
    thread->join();
    return in_time;
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
      if (event.has_checkpoint()) {
        MutexLock lock(&orders_mutex_);
        order_ = event.checkpoint();
        if (orders_) orders_(*order_);
      }
      MutexLock lock(&mutex_);
      heard_ = time_.Elapsed();
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

  // Sends replies, heartbeats and batches of records, each when it is due.
  void Write() {
    SessionRequest heartbeat;
    SessionRequest records;
    SessionRequest reply;
    while (true) {
      const SessionRequest* next = &records;
      {
        MutexLock lock(&mutex_);
        while (!heartbeat_ && replies_.empty() && !RecordsAreDueLocked() && !stop_) {
          if (records_.empty()) {
            wake_writer_.Wait(&mutex_);
          } else {
            wake_writer_.WaitUntil(&mutex_, records_.due());
          }
        }
        if (!replies_.empty()) {
          next = &reply;
          *reply.mutable_checkpoint() = std::move(replies_.front());
          replies_.pop_front();
        } else if (heartbeat_) {
          next = &heartbeat;
          *heartbeat.mutable_heartbeat() = *std::exchange(heartbeat_, std::nullopt);
        } else if (!records_.empty()) {
          records_.Take(records.mutable_records());
        } else {
          break;
        }
      }
      records.mutable_records()->set_sender_processor_ns(
          absl::ToInt64Nanoseconds(ThreadProcessorTime()));
      if (next == &records && options_.on_records) {
        options_.on_records(records.records());
      }
      // A broken stream is the reader's to report; the rest has nobody to go to.
      if (!stream_->Write(*next)) break;
    }
    SetEnded(&writer_ended_);
  }

  bool RecordsAreDueLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !records_.empty() && std::chrono::steady_clock::now() >= records_.due();
  }

  // Makes heartbeats, and listens for the coordinator's. Apart from the writer, which a
  // silent coordinator may block.
  void Pulse() {
    absl::Duration last = time_.Elapsed();
    while (true) {
      Heartbeat heartbeat;
      {
        MutexLock lock(&activity_mutex_);
        if (activity_) *heartbeat.mutable_activity() = activity_();
      }
      if (!PulseOnce(std::move(heartbeat), &last)) break;
    }
    SetEnded(&pulse_ended_);
  }

  // Hands a heartbeat to the writer and lets the time until the next one pass; false:
  // that was the last. `last` is when this was done before.
  bool PulseOnce(Heartbeat heartbeat, absl::Duration* last) {
    absl::Duration dead;
    {
      MutexLock lock(&mutex_);
      heartbeat_ = std::move(heartbeat);
      wake_writer_.NotifyOne();
      const absl::Duration interval = liveness_.heartbeat;
      const auto next = SteadyDeadline(interval);
      bool expired = false;
      while (!stop_ && !expired) expired = stopped_.WaitUntil(&mutex_, next);
      if (stop_) return false;
      // Time in which this process itself was stopped is not the coordinator's silence.
      const absl::Duration now = time_.Elapsed();
      const absl::Duration absence = now - std::exchange(*last, now) - interval;
      if (absence > interval) heard_ = std::min(now, heard_ + absence);
      dead = liveness_.dead;
      if (now - heard_ <= dead) return true;
    }
    aborts_.Abort(PeerLostError(absl::StrCat(
        "the coordinator at ", options_.address,
        " is dead: it has not been heard of for ", absl::FormatDuration(dead),
        " (its process or host is gone, frozen or cut off)")));
    context_.TryCancel();
    return false;
  }

  void Stop() {
    MutexLock lock(&mutex_);
    stop_ = true;
    wake_writer_.NotifyOne();
    stopped_.NotifyAll();
  }

  const Options options_;
  const uint64_t incarnation_ = NewIncarnation();
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<CoordinatorService::Stub> stub_;
  grpc::ClientContext context_;  // Of the session.
  std::unique_ptr<grpc::ClientReaderWriter<SessionRequest, SessionEvent>> stream_;
  JobSpec spec_;
  const RealTime time_;
  AbortSource aborts_;

  Mutex mutex_;
  CondVar wake_writer_;
  CondVar stopped_;
  RecordQueue records_ ABSL_GUARDED_BY(mutex_);
  LivenessSettings liveness_ ABSL_GUARDED_BY(mutex_);  // Known from the welcome on.
  std::optional<Heartbeat> heartbeat_ ABSL_GUARDED_BY(mutex_);   // To be sent.
  std::deque<CheckpointReply> replies_ ABSL_GUARDED_BY(mutex_);  // The same.
  absl::Duration heard_ ABSL_GUARDED_BY(mutex_);                 // Of the coordinator.
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  bool leaving_ ABSL_GUARDED_BY(mutex_) = false;
  CondVar thread_ended_;
  bool reader_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool writer_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool pulse_ended_ ABSL_GUARDED_BY(mutex_) = false;

  Mutex activity_mutex_;
  std::function<Activity()> activity_ ABSL_GUARDED_BY(activity_mutex_);

  Mutex orders_mutex_;
  std::function<void(const CheckpointOrder&)> orders_ ABSL_GUARDED_BY(orders_mutex_);
  std::optional<CheckpointOrder> order_ ABSL_GUARDED_BY(orders_mutex_);  // The latest.

  std::thread reader_;
  std::thread writer_;
  std::thread pulse_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinatorClient>> CoordinatorClient::Join(
    const Options& options) {
  auto client = std::make_unique<Client>(options);
  RETURN_IF_ERROR(client->Start());
  return client;
}

}  // namespace psring
