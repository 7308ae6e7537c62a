#include "experiments/run_watchers.h"

#include <algorithm>
#include <iostream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/member_process.h"
#include "common/status_macros.h"
#include "experiments/hosts/host_plan.h"
#include "experiments/live/run_metrics.h"

namespace psring {

absl::StatusOr<MetricsAddresses> CheckMetrics(const std::string& host_and_port,
                                              const std::vector<JobSpec>& specs,
                                              bool external) {
  constexpr int kLastPort = 65535;
  const size_t colon = host_and_port.rfind(':');
  MetricsAddresses addresses;
  addresses.host = host_and_port.substr(0, colon);
  int processes = 0;
  for (const JobSpec& spec : specs) {
    processes = std::max(processes, spec.workers() + spec.servers());
  }
  if (colon == std::string::npos ||
      !absl::SimpleAtoi(host_and_port.substr(colon + 1), &addresses.port) ||
      addresses.port < 1 || addresses.port > kLastPort - processes) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "--metrics: \"%s\": allowed is HOST:PORT with a port from 1 to %d, because up to "
        "%d processes have the ports that follow psring's",
        host_and_port, kLastPort - processes, processes));
  }
  // Emulated hosts have ports of their own.
  if (std::any_of(specs.begin(), specs.end(), OnHosts)) return addresses;
  for (int k = 0; k <= (external ? 0 : processes); ++k) {
    RETURN_IF_ERROR(CheckCanListen(HostPort(addresses.host, addresses.port + k)));
  }
  return addresses;
}

RunWatchers::RunWatchers(const std::string& tensorboard) : live_(&time_) {
  if (!tensorboard.empty()) tensorboard_.emplace(tensorboard);
}

absl::StatusOr<std::unique_ptr<RunWatchers>> RunWatchers::Start(
    const std::string& tensorboard, const std::optional<MetricsAddresses>& metrics,
    bool on_hosts) {
  std::unique_ptr<RunWatchers> watchers(new RunWatchers(tensorboard));
  if (!metrics) return watchers;
  // The address that others reach comes with the first hosts.
  const std::string host = on_hosts ? "0.0.0.0" : metrics->host;
  ASSIGN_OR_RETURN(watchers->metrics_server_,
                   MetricsServer::Start(HostPort(host, metrics->port),
                                        std::make_shared<RunMetrics>(&watchers->live_)));
  const std::string reached = on_hosts ? HostPlan::kCoordinatorAddress : host;
  std::cerr << "metrics at http://" << HostPort(reached, metrics->port)
            << "/metrics (psring)" << std::endl;
  return watchers;
}

std::vector<RunWatcher*> RunWatchers::all() {
  std::vector<RunWatcher*> all = {&live_};
  if (tensorboard_) all.push_back(&*tensorboard_);
  return all;
}

}  // namespace psring
