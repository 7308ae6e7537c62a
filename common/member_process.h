// What the mains of workers and servers have in common: flags, membership, outcome.
#ifndef PSRING_COMMON_MEMBER_PROCESS_H_
#define PSRING_COMMON_MEMBER_PROCESS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/coordinator_client.h"
#include "common/gradient_exchange.h"
#include "common/process_metrics.h"
#include "common/step_constants.h"
#include "common/time_source.h"
#include "proto/coordinator.pb.h"

namespace psring {

// The address under which others reach this process, and where it listens.
struct Endpoint {
  std::string bind = "127.0.0.1";  // Without port; ports are the system's choice.
  std::string advertise;           // Without port.
  absl::Duration rendezvous_timeout;
  std::string coordinator;            // "HOST:PORT" of the job's.
  ProcessMetrics* metrics = nullptr;  // Null: nobody asks for them.
};

// "HOST:PORT", with an IPv6 address in brackets, which it may have already.
std::string HostPort(const std::string& host, int port);

// Parses the command line, joins the job, runs `body`, and leaves with its outcome. The
// result is the exit code; an error is one line on stderr. The body does its work and
// calls client.Leave with its own outcome while what others are connected to still
// stands, so that they learn the cause from the coordinator and not from a closed socket.
int RunMember(int argc, char** argv, Role role, const std::string& description,
              const std::function<absl::Status(const Endpoint&, const Member&,
                                               CoordinatorClient&)>& body);

// The job's step constants, from the coordinator and ahead of their use. `client`
// outlives the source, whose waits end when the job is aborted.
std::shared_ptr<StepConstantsSource> StepConstantsOf(CoordinatorClient& client);

// Reports how the process's clock, which began at the start barrier, compares with the
// coordinator's. Before the first step and after the last, so that a drift shows; takes
// some milliseconds.
absl::Status ReportClock(const Member& member, const TimeSource& clock,
                         CoordinatorClient& client);

// What a process reports of its traffic at the end, while its connections still stand:
// where the exchange does not know what they carried, the kernel does, if they lead to
// other hosts.
TrafficRecord TrafficOf(const Endpoint& endpoint, const Member& member,
                        const ExchangeTraffic& traffic);

}  // namespace psring

#endif  // PSRING_COMMON_MEMBER_PROCESS_H_
