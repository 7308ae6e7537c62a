// The emulated hosts of one run of an arm: namespaces, links and switches.
#ifndef PSRING_EXPERIMENTS_HOSTS_HOST_NETWORK_H_
#define PSRING_EXPERIMENTS_HOSTS_HOST_NETWORK_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/tcp_socket.h"
#include "experiments/hosts/host_plan.h"
#include "experiments/hosts/link_reading.h"

namespace psring {

// Exists once at a time in a process, which has entered its private network. Threads that
// use it were made after that. Nothing of it outlives the process and its children,
// however they end: only their descriptors hold it.
class HostNetwork {
 public:
  // Internal (exit code 77): the system cannot do it; with the command that failed.
  static absl::StatusOr<std::unique_ptr<HostNetwork>> Create(HostPlan plan);
  // After the hosts' processes have ended.
  ~HostNetwork();
  HostNetwork(const HostNetwork&) = delete;
  HostNetwork& operator=(const HostNetwork&) = delete;

  const HostPlan& plan() const { return plan_; }
  // The namespace that the process belongs in.
  int NamespaceOf(absl::string_view process) const {
    return namespaces_[plan_.HostOf(process)].get();
  }

  // All links, in the order of LinksOf. Takes a few milliseconds of processor time for
  // each host. Any thread. Internal: a tool failed.
  absl::StatusOr<HostsReading> Read() const;

 private:
  explicit HostNetwork(HostPlan plan) : plan_(std::move(plan)) {}
  absl::Status Connect();

  const HostPlan plan_;
  std::vector<FileDescriptor> namespaces_;  // By host.
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_HOSTS_HOST_NETWORK_H_
