#include "common/coordinator_service.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint_conductor.h"
#include "common/errors.h"
#include "common/grpc_status.h"
#include "common/mutex.h"
#include "common/processor_time.h"
#include "glog/logging.h"
#include "grpcpp/grpcpp.h"
#include "proto/coordinator.grpc.pb.h"

namespace psring {
namespace {

// How often members are looked at; a fraction of the shortest verdict, and of what it
// takes to let those that hold for a checkpoint go a step further.
constexpr absl::Duration kLivenessInterval = absl::Milliseconds(100);

using SessionStream = grpc::ServerReaderWriter<SessionEvent, SessionRequest>;

// Hears of a conductor's orders for as long as it lives.
class OrderListener {
 public:
  OrderListener(CheckpointConductor* conductor, CheckpointConductor::Listener listener)
      : conductor_(conductor), id_(conductor->AddListener(std::move(listener))) {}
  ~OrderListener() { conductor_->RemoveListener(id_); }
  OrderListener(const OrderListener&) = delete;
  OrderListener& operator=(const OrderListener&) = delete;

 private:
  CheckpointConductor* const conductor_;
  const int64_t id_;
};

class Service final : public CoordinatorService::Service {
 public:
  Service(Coordinator* coordinator, std::string job)
      : coordinator_(coordinator), job_(std::move(job)) {}

  grpc::Status Session(grpc::ServerContext*, SessionStream* stream) override {
    SessionRequest request;
    if (!stream->Read(&request) || !request.has_hello()) {
      return ToGrpc(absl::InvalidArgumentError("a session starts with a hello"));
    }
    const Hello hello = request.hello();
    const absl::StatusOr<JobSpec> spec = coordinator_->Join(hello);
    if (!spec.ok()) return ToGrpc(spec.status());
    SessionEvent welcome;
    *welcome.mutable_welcome()->mutable_spec() = *spec;
    stream->Write(welcome);

    // From here on an abort may write from its own thread, until it is unregistered.
    Mutex write_mutex;
    const auto write = [&](const SessionEvent& event) {
      MutexLock lock(&write_mutex);
      stream->Write(event);
    };
    AbortSource::Registration abort(&coordinator_->aborts(),
                                    [&write](const absl::Status& reason) {
                                      SessionEvent event;
                                      *event.mutable_abort() = ToFailure(reason);
                                      write(event);
                                    });
    const OrderListener orders(&coordinator_->checkpoints(),
                               [&write](const CheckpointOrder& order) {
                                 SessionEvent event;
                                 *event.mutable_checkpoint() = order;
                                 write(event);
                               });
    SessionEvent echo;
    echo.mutable_heartbeat();
    const absl::Duration before = ThreadProcessorTime();
    while (stream->Read(&request)) {
      if (request.has_records()) {
        coordinator_->Take(hello.member(), std::move(*request.mutable_records()),
                           ThreadProcessorTime() - before);
      } else if (request.has_heartbeat()) {
        coordinator_->Hear(hello, request.heartbeat().activity());
        write(echo);
      } else if (request.has_checkpoint()) {
        coordinator_->checkpoints().Take(hello.member(), request.checkpoint());
      } else if (request.has_goodbye()) {
        // After an abort a member's outcome is an echo of it, and changes nothing.
        coordinator_->Leave(hello, request.goodbye().has_failure()
                                       ? FromFailure(request.goodbye().failure())
                                       : absl::OkStatus());
        return grpc::Status::OK;
      }
    }
    coordinator_->Lose(hello, "was lost: its connection ended without a goodbye");
    return grpc::Status::OK;
  }

  grpc::Status Put(grpc::ServerContext*, const PutRequest* request,
                   PutResponse*) override {
    if (absl::Status status = CheckJob(request->job()); !status.ok()) {
      return ToGrpc(status);
    }
    coordinator_->Put(request->key(), request->value());
    return grpc::Status::OK;
  }

  grpc::Status Get(grpc::ServerContext*, const GetRequest* request,
                   GetResponse* response) override {
    if (absl::Status status = CheckJob(request->job()); !status.ok()) {
      return ToGrpc(status);
    }
    absl::StatusOr<std::string> value =
        coordinator_->Get(request->key(), absl::Milliseconds(request->timeout_ms()));
    if (!value.ok()) return ToGrpc(value.status());
    response->set_value(*std::move(value));
    return grpc::Status::OK;
  }

  grpc::Status Barrier(grpc::ServerContext*, const BarrierRequest* request,
                       BarrierResponse*) override {
    if (absl::Status status = CheckJob(request->job()); !status.ok()) {
      return ToGrpc(status);
    }
    return ToGrpc(coordinator_->Barrier(request->name(), request->member(),
                                        absl::Milliseconds(request->timeout_ms())));
  }

  grpc::Status GetSchedule(grpc::ServerContext*, const ScheduleRequest* request,
                           ScheduleResponse* response) override {
    if (absl::Status status = CheckJob(request->job()); !status.ok()) {
      return ToGrpc(status);
    }
    const absl::StatusOr<std::vector<StepConstants>> schedule =
        coordinator_->GetSchedule(request->first_update(), request->count());
    if (!schedule.ok()) return ToGrpc(schedule.status());
    for (const StepConstants& constants : *schedule) {
      response->add_learning_rate(constants.learning_rate);
      response->add_adam_step_size(constants.adam_step_size);
      response->add_adam_root_scale(constants.adam_root_scale);
    }
    return grpc::Status::OK;
  }

  grpc::Status GetTime(grpc::ServerContext*, const TimeRequest*,
                       TimeResponse* response) override {
    response->set_time_ns(absl::ToInt64Nanoseconds(coordinator_->Now()));
    return grpc::Status::OK;
  }

 private:
  absl::Status CheckJob(const std::string& job) const {
    if (job == job_) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("the caller belongs to job \"", job,
                                                      "\", this is job \"", job_, "\""));
  }

  Coordinator* const coordinator_;
  const std::string job_;
};

class Host final : public CoordinatorHost {
 public:
  Host(Coordinator* coordinator, std::string job)
      : coordinator_(coordinator), service_(coordinator, std::move(job)) {}

  ~Host() override {
    if (server_ == nullptr) return;
    {
      MutexLock lock(&mutex_);
      stop_ = true;
      stopped_.NotifyAll();
    }
    watch_.join();
    // Whatever still waits is told, so that no handler outlives this object.
    coordinator_->Abort(PeerLostError("the coordinator ended"));
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  }

  absl::Status Listen(const std::string& address) {
    // For the life of the process, as in common/member_process.cc; here, because whoever
    // hosts the coordinator may have to block signals before any thread is started.
    grpc_init();
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port_ == 0) {
      return absl::UnavailableError(absl::StrCat(
          "the coordinator cannot listen on ", address,
          ": the address is not this machine's, or its port is taken or not allowed"));
    }
    watch_ = std::thread([this] { WatchLiveness(); });
    return absl::OkStatus();
  }

  int port() const override { return port_; }

 private:
  void WatchLiveness() {
    MutexLock lock(&mutex_);
    while (!stop_) {
      mutex_.Unlock();
      for (const std::string& warning : coordinator_->CheckLiveness()) {
        LOG(WARNING) << warning;
      }
      coordinator_->checkpoints().Tick();
      mutex_.Lock();
      const auto next = SteadyDeadline(kLivenessInterval);
      bool expired = false;
      while (!stop_ && !expired) expired = stopped_.WaitUntil(&mutex_, next);
    }
  }

  Coordinator* const coordinator_;
  Service service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;

  Mutex mutex_;
  CondVar stopped_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread watch_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CoordinatorHost>> CoordinatorHost::Start(
    const std::string& address, Coordinator* coordinator) {
  auto host = std::make_unique<Host>(coordinator, coordinator->job());
  if (absl::Status status = host->Listen(address); !status.ok()) return status;
  return host;
}

}  // namespace psring
