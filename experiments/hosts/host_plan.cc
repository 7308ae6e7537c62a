#include "experiments/hosts/host_plan.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/job_plan.h"
#include "experiments/hosts/host_settings.h"
#include "glog/logging.h"

namespace psring {
namespace {

constexpr char kDataNetwork[] = "10.77";
constexpr char kControlNetwork[] = "10.78";

int64_t BitPerSecond(double mbit) { return std::llround(mbit * 1e6); }

// Number 1 of a network is not a host's: in the control network it is the coordinator's.
std::string Address(const char* network, int host) {
  const int number = host + 2;
  return absl::StrCat(network, ".", number / 256, ".", number % 256);
}

std::string Switch(int rack) { return absl::StrCat("switch-", rack); }

// A token bucket: `rate`, and at most `burst` at once. What waits beyond `limit` is
// dropped. 0: no limit.
std::string Shape(const std::string& interface, int64_t bit_s, const HostPlan& plan) {
  if (bit_s == 0) return "";
  return absl::StrCat("qdisc add dev ", interface, " root tbf rate ", bit_s, "bit burst ",
                      plan.burst_bytes, " limit ", plan.queue_bytes, "\n");
}

// Without multicast snooping the switch sends nothing of its own.
std::string AddBridge(const std::string& name) {
  return absl::StrCat("link add name ", name, " group ", kInterfaceGroup,
                      " type bridge mcast_snooping 0\nlink set ", name, " up\n");
}

std::string AddPort(const std::string& name, const std::string& bridge,
                    const std::string& peer) {
  return absl::StrCat("link add name ", name, " group ", kInterfaceGroup,
                      " type veth peer name ", peer, "\nlink set ", name, " master ",
                      bridge, " up\n");
}

}  // namespace

int HostPlan::HostOf(absl::string_view process) const {
  const auto host = std::find_if(hosts.begin(), hosts.end(), [&](const auto& planned) {
    const auto& processes = planned.processes;
    return std::find(processes.begin(), processes.end(), process) != processes.end();
  });
  CHECK(host != hosts.end()) << process << " has no host";
  return static_cast<int>(host - hosts.begin());
}

std::string DataAddress(int host) { return Address(kDataNetwork, host); }

std::string ControlAddress(int host) { return Address(kControlNetwork, host); }

bool OnHosts(const JobSpec& spec) { return HostsOf(spec) != nullptr; }

HostPlan PlanHosts(const JobSpec& spec) {
  const Hosts& settings = *CHECK_NOTNULL(HostsOf(spec));
  HostPlan plan;
  plan.queue_bytes = settings.queue_bytes();
  plan.burst_bytes = settings.burst_bytes();
  plan.congestion_control = CongestionControlName(settings);
  if (settings.has_racks())
    plan.racks_bit_s = BitPerSecond(settings.racks().link_mbit_s());
  const auto add = [&](const std::string& name) {
    const int host = static_cast<int>(plan.hosts.size());
    const auto& second = settings.racks().second();
    PlannedHost planned{.name = name,
                        .processes = {name},
                        .rack = std::ranges::count(second, name) > 0 ? 1 : 0,
                        .send_bit_s = BitPerSecond(settings.link_mbit_s()),
                        .receive_bit_s = BitPerSecond(settings.link_mbit_s()),
                        .data_address = DataAddress(host),
                        .control_address = ControlAddress(host)};
    for (const HostLink& link : settings.links()) {
      if (link.host() != name) continue;
      planned.send_bit_s = BitPerSecond(link.send_mbit_s());
      planned.receive_bit_s = BitPerSecond(link.receive_mbit_s());
    }
    plan.hosts.push_back(planned);
  };
  for (int rank = 0; rank < spec.workers(); ++rank) add(absl::StrCat("worker ", rank));
  for (int rank = 0; rank < spec.servers(); ++rank) {
    const std::string name = absl::StrCat("server ", rank);
    if (const auto worker = PeerOnHost(spec, rank)) {
      plan.hosts[*worker].processes.push_back(name);
    } else {
      add(name);
    }
  }
  return plan;
}

std::vector<LinkDirection> LinksOf(const HostPlan& plan) {
  std::vector<LinkDirection> links;
  for (const PlannedHost& host : plan.hosts) {
    links.push_back({.host = host.name, .out = true, .bit_s = host.send_bit_s});
    links.push_back({.host = host.name, .out = false, .bit_s = host.receive_bit_s});
  }
  if (plan.racks_bit_s) {
    for (const bool out : {true, false}) {
      links.push_back({.host = "rack 0", .out = out, .bit_s = *plan.racks_bit_s});
    }
  }
  return links;
}

std::string SwitchInterface(int host) { return absl::StrCat("data-", host); }

std::string RackInterface(int rack) { return absl::StrCat("rack-", rack); }

NamespaceCommands SwitchCommands(const HostPlan& plan,
                                 const std::vector<std::string>& namespaces) {
  CHECK_EQ(plan.hosts.size(), namespaces.size());
  NamespaceCommands commands;
  absl::StrAppend(&commands.ip, AddBridge(kControlInterface), "address add ",
                  HostPlan::kCoordinatorAddress, "/16 dev ", kControlInterface, "\n");
  for (int rack = 0; rack < plan.racks(); ++rack) {
    absl::StrAppend(&commands.ip, AddBridge(Switch(rack)));
  }
  if (plan.racks_bit_s) {
    absl::StrAppend(&commands.ip,
                    AddPort(RackInterface(0), Switch(0),
                            absl::StrCat(RackInterface(1), " group ", kInterfaceGroup)),
                    "link set ", RackInterface(1), " master ", Switch(1), " up\n");
    for (int rack = 0; rack < plan.racks(); ++rack) {
      absl::StrAppend(&commands.tc, Shape(RackInterface(rack), *plan.racks_bit_s, plan));
    }
  }
  for (int host = 0; host < static_cast<int>(plan.hosts.size()); ++host) {
    const PlannedHost& planned = plan.hosts[host];
    absl::StrAppend(
        &commands.ip,
        AddPort(SwitchInterface(host), Switch(planned.rack),
                absl::StrCat(kDataInterface, " netns ", namespaces[host])),
        AddPort(absl::StrCat("control-", host), kControlInterface,
                absl::StrCat(kControlInterface, " netns ", namespaces[host])));
    absl::StrAppend(&commands.tc,
                    Shape(SwitchInterface(host), planned.receive_bit_s, plan));
  }
  return commands;
}

NamespaceCommands HostCommands(const HostPlan& plan, int host) {
  const PlannedHost& planned = plan.hosts[host];
  NamespaceCommands commands;
  // The route sets the congestion control of every socket that uses it: it cannot be
  // forgotten in a program, and needs no privilege that a user's namespace lacks.
  absl::StrAppend(&commands.ip, "link set lo up\naddress add ", planned.data_address,
                  "/16 dev ", kDataInterface, " noprefixroute\naddress add ",
                  planned.control_address, "/16 dev ", kControlInterface, "\nlink set ",
                  kDataInterface, " up\nlink set ", kControlInterface, " up\nroute add ",
                  kDataNetwork, ".0.0/16 dev ", kDataInterface, " src ",
                  planned.data_address, " congctl ", plan.congestion_control, "\n");
  absl::StrAppend(&commands.tc, Shape(kDataInterface, planned.send_bit_s, plan));
  return commands;
}

}  // namespace psring
