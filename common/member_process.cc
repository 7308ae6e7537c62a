#include "common/member_process.h"

#include <cstdlib>
#include <iostream>
#include <thread>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/abort_source.h"
#include "common/allocator.h"
#include "common/carried_bytes.h"
#include "common/clock_offset.h"
#include "common/coordinator.h"
#include "common/errors.h"
#include "common/fetched_step_constants.h"
#include "common/job_plan.h"
#include "common/metrics_server.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "glog/logging.h"
#include "grpc/grpc.h"

namespace psring {
namespace {

// How long an aborted process may take to end by itself.
constexpr absl::Duration kAbortGrace = absl::Seconds(5);

int Fail(const Member& member, const absl::Status& status) {
  std::cerr << "psring " << ToString(member) << ": " << status.message() << std::endl;
  return static_cast<int>(ExitCodeOf(status));
}

// Ends the process where an abort does not end it in time: whatever it is stuck in, the
// reason is known and nothing hangs.
class AbortWatchdog {
 public:
  AbortWatchdog(const Member& member, AbortSource* aborts)
      : member_(member),
        registration_(aborts, [this](const absl::Status& reason) { Set(reason); }),
        thread_([this] { Watch(); }) {}

  ~AbortWatchdog() {
    {
      MutexLock lock(&mutex_);
      ended_ = true;
      changed_.NotifyAll();
    }
    thread_.join();
  }

 private:
  void Set(const absl::Status& reason) {
    MutexLock lock(&mutex_);
    reason_ = reason;
    changed_.NotifyAll();
  }

  void Watch() {
    MutexLock lock(&mutex_);
    while (!ended_ && reason_.ok()) changed_.Wait(&mutex_);
    const auto deadline = SteadyDeadline(kAbortGrace);
    bool expired = false;
    while (!ended_ && !expired) expired = changed_.WaitUntil(&mutex_, deadline);
    if (!ended_) std::_Exit(Fail(member_, reason_));
  }

  const Member member_;
  Mutex mutex_;
  CondVar changed_;
  absl::Status reason_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  const AbortSource::Registration registration_;
  std::thread thread_;
};

}  // namespace

std::string HostPort(const std::string& host, int port) {
  const bool bare_ipv6 = absl::StrContains(host, ":") && !absl::StartsWith(host, "[");
  return bare_ipv6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

std::shared_ptr<StepConstantsSource> StepConstantsOf(CoordinatorClient& client) {
  return std::make_shared<FetchedStepConstants>(
      MostUpdates(client.spec()), [&client](int64_t first_update, int64_t count) {
        return client.GetSchedule(first_update, count);
      });
}

TrafficRecord TrafficOf(const Endpoint& endpoint, const Member& member,
                        const ExchangeTraffic& traffic) {
  TrafficRecord total;
  total.set_process(ToString(member));
  total.set_payload_out(traffic.payload_out);
  total.set_payload_in(traffic.payload_in);
  total.set_initial_out(traffic.initial_out);
  total.set_initial_in(traffic.initial_in);
  total.set_snapshot_out(traffic.snapshot_out);
  total.set_snapshot_in(traffic.snapshot_in);
  total.set_local_payload_out(traffic.local_payload_out);
  total.set_local_payload_in(traffic.local_payload_in);
  total.set_local_other_out(traffic.local_other_out);
  total.set_local_other_in(traffic.local_other_in);
  if (traffic.wire_out && traffic.wire_in) {
    total.set_wire_out(*traffic.wire_out);
    total.set_wire_in(*traffic.wire_in);
  } else if (const auto carried = CarriedOverTcp(endpoint.coordinator)) {
    total.set_wire_out(carried->out);
    total.set_wire_in(carried->in);
  }
  if (traffic.awaiting_bytes) {
    total.set_awaiting_bytes_ns(absl::ToInt64Nanoseconds(*traffic.awaiting_bytes));
  }
  if (traffic.awaiting_room) {
    total.set_awaiting_room_ns(absl::ToInt64Nanoseconds(*traffic.awaiting_room));
  }
  if (traffic.retransmissions) total.set_retransmissions(*traffic.retransmissions);
  return total;
}

absl::Status ReportClock(const Member& member, const TimeSource& clock,
                         CoordinatorClient& client) {
  ASSIGN_OR_RETURN(const ClockOffset compared, client.CompareClock(clock));
  client.Report([&](RecordBatch& batch) {
    ClockRecord& record = *batch.add_clocks();
    record.set_process(ToString(member));
    record.set_offset_ns(absl::ToInt64Nanoseconds(compared.offset));
    record.set_error_ns(absl::ToInt64Nanoseconds(compared.error));
    record.set_time_ns(absl::ToInt64Nanoseconds(compared.time));
  });
  return absl::OkStatus();
}

int RunMember(int argc, char** argv, Role role, const std::string& description,
              const std::function<absl::Status(const Endpoint&, const Member&,
                                               CoordinatorClient&)>& body) {
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);
  TuneAllocator();
  // For the life of the process, without a shutdown: gRPC 1.51 cleans up behind its last
  // object, and that can block an exit for up to ten seconds.
  grpc_init();

  CoordinatorClient::Options options;
  options.member.set_role(role);
  int rank = 0;
  Endpoint endpoint;
  double timeout_seconds = 60;
  std::string metrics_address;
  CLI::App app(description);
  app.add_option("--coordinator", options.address, "HOST:PORT of the job's coordinator")
      ->required();
  app.add_option("--job", options.job, "Name of the job, the same for all its processes")
      ->required();
  app.add_option("--rank", rank, "This process's number within its role, from 0")
      ->required()
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("--bind", endpoint.bind, "Address to listen on")->capture_default_str();
  app.add_option("--advertise", endpoint.advertise,
                 "Address that others reach this process at (default: --bind)");
  app.add_option("--rendezvous-timeout", timeout_seconds,
                 "Seconds to wait for the coordinator and for the other processes")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--metrics", metrics_address,
                 "HOST:PORT at which to answer Prometheus (default: nowhere)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? static_cast<int>(ExitCode::kOk)
                                : static_cast<int>(ExitCode::kUsage);
  }
  options.member.set_rank(rank);
  if (endpoint.advertise.empty()) endpoint.advertise = endpoint.bind;
  endpoint.rendezvous_timeout = absl::Seconds(timeout_seconds);
  options.rendezvous_timeout = endpoint.rendezvous_timeout;
  endpoint.coordinator = options.address;

  const auto metrics = std::make_shared<ProcessMetrics>(options.member);
  if (!metrics_address.empty()) {
    endpoint.metrics = metrics.get();
    options.on_records = [&metrics](const RecordBatch& batch) { metrics->Add(batch); };
  }
  auto client = CoordinatorClient::Join(options);
  if (!client.ok()) return Fail(options.member, client.status());
  LOG(INFO) << ToString(options.member) << " joined job " << options.job;
  const AbortWatchdog watchdog(options.member, &(*client)->aborts());
  std::unique_ptr<MetricsServer> metrics_server;
  if (!metrics_address.empty()) {
    metrics->SetJob((*client)->spec());
    auto server = MetricsServer::Start(metrics_address, metrics);
    // As a member it can tell everyone why.
    if (!server.ok()) return Fail(options.member, (*client)->Leave(server.status()));
    metrics_server = *std::move(server);
    LOG(INFO) << "metrics at http://" << metrics_address << "/metrics";
  }
  if (absl::Status status = body(endpoint, options.member, **client); !status.ok()) {
    return Fail(options.member, status);
  }
  return static_cast<int>(ExitCode::kOk);
}

}  // namespace psring
