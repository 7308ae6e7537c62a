#include "experiments/hosts/host_network.h"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/errors.h"
#include "common/status_macros.h"
#include "experiments/hosts/kernel_statistics.h"
#include "experiments/hosts/network_namespace.h"
#include "glog/logging.h"

namespace psring {
namespace {

constexpr char kIp[] = "/sbin/ip";
constexpr char kTc[] = "/sbin/tc";

using Queues = std::map<std::string, QueueStatistics>;
using Interfaces = std::map<std::string, InterfaceStatistics>;

absl::Status Execute(const NamespaceCommands& commands) {
  RETURN_IF_ERROR(RunTool({kIp, "-batch", "-"}, commands.ip).status());
  return RunTool({kTc, "-batch", "-"}, commands.tc).status();
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path);
  if (!file.is_open()) return absl::InternalError(absl::StrCat("cannot read ", path));
  return std::string(std::istreambuf_iterator<char>(file), {});
}

absl::StatusOr<Queues> ReadQueues() {
  ASSIGN_OR_RETURN(const std::string json, RunTool({kTc, "-s", "-j", "qdisc"}));
  return ParseQueues(json);
}

// One end of a link; it was made with the network, so it is there.
template <typename Statistics>
absl::StatusOr<Statistics> Find(const std::map<std::string, Statistics>& all,
                                const std::string& interface) {
  const auto found = all.find(interface);
  if (found != all.end()) return found->second;
  return absl::InternalError(absl::StrCat("there is no interface ", interface));
}

// What goes through `queue`, and what `interface`, at the switch, has counted of it.
absl::StatusOr<LinkReading> ReadingOf(const std::string& host, bool out,
                                      const Queues& queues, const std::string& queue,
                                      const Interfaces& interfaces,
                                      const std::string& interface) {
  ASSIGN_OR_RETURN(const QueueStatistics through, Find(queues, queue));
  ASSIGN_OR_RETURN(const InterfaceStatistics at, Find(interfaces, interface));
  return LinkReading{.host = host,
                     .out = out,
                     .bytes = through.bytes,
                     .packets = through.packets,
                     .dropped = through.dropped,
                     .backlog_bytes = through.backlog_bytes,
                     .interface_bytes = out ? at.received_bytes : at.sent_bytes,
                     .interface_packets = out ? at.received_packets : at.sent_packets,
                     .resent = 0};
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostNetwork>> HostNetwork::Create(HostPlan plan) {
  std::unique_ptr<HostNetwork> network(new HostNetwork(std::move(plan)));
  if (const absl::Status connected = network->Connect(); !connected.ok()) {
    return WithExitCode(Annotate(connected, "cannot emulate hosts"), ExitCode::kSkipped);
  }
  return network;
}

absl::Status HostNetwork::Connect() {
  std::vector<std::string> paths;
  for (size_t host = 0; host < plan_.hosts.size(); ++host) {
    ASSIGN_OR_RETURN(FileDescriptor network, NewNetworkNamespace());
    paths.push_back(absl::StrCat("/proc/", getpid(), "/fd/", network.get()));
    namespaces_.push_back(std::move(network));
  }
  RETURN_IF_ERROR(Execute(SwitchCommands(plan_, paths)));
  for (size_t host = 0; host < plan_.hosts.size(); ++host) {
    RETURN_IF_ERROR(RunInside(namespaces_[host].get(), [&] {
      return Execute(HostCommands(plan_, static_cast<int>(host)));
    }));
  }
  return absl::OkStatus();
}

// The next network has interfaces of the same names, so these must be gone now, and not
// some time after their last descriptor.
HostNetwork::~HostNetwork() {
  const auto deleted =
      RunTool({kIp, "link", "delete", "group", absl::StrCat(kInterfaceGroup)});
  if (!deleted.ok()) LOG(ERROR) << deleted.status();
}

absl::StatusOr<HostsReading> HostNetwork::Read() const {
  HostsReading reading;
  reading.time = absl::Now();
  ASSIGN_OR_RETURN(const ProcessorTimes times, ReadProcessorTimes());
  reading.idle = times.idle;
  reading.processors = times.total;
  ASSIGN_OR_RETURN(const Queues at_switch, ReadQueues());
  ASSIGN_OR_RETURN(const std::string text, ReadFile("/proc/thread-self/net/dev"));
  ASSIGN_OR_RETURN(const Interfaces interfaces, ParseInterfaces(text));
  for (int host = 0; host < static_cast<int>(plan_.hosts.size()); ++host) {
    const std::string& name = plan_.hosts[host].name;
    const std::string port = SwitchInterface(host);
    RETURN_IF_ERROR(RunInside(namespaces_[host].get(), [&]() -> absl::Status {
      ASSIGN_OR_RETURN(const Queues at_host, ReadQueues());
      ASSIGN_OR_RETURN(LinkReading out, ReadingOf(name, /*out=*/true, at_host,
                                                  kDataInterface, interfaces, port));
      ASSIGN_OR_RETURN(const std::string snmp, ReadFile("/proc/thread-self/net/snmp"));
      ASSIGN_OR_RETURN(out.resent, ParseResentSegments(snmp));
      reading.links.push_back(out);
      return absl::OkStatus();
    }));
    ASSIGN_OR_RETURN(const LinkReading in,
                     ReadingOf(name, /*out=*/false, at_switch, port, interfaces, port));
    reading.links.push_back(in);
  }
  if (plan_.racks_bit_s) {
    // Rack 0's end of the link is a host's, the other one the switch's.
    for (const bool out : {true, false}) {
      ASSIGN_OR_RETURN(const LinkReading link,
                       ReadingOf("rack 0", out, at_switch, RackInterface(out ? 0 : 1),
                                 interfaces, RackInterface(1)));
      reading.links.push_back(link);
    }
  }
  return reading;
}

}  // namespace psring
