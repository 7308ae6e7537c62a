#include "common/link_delay.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/job_plan.h"

namespace psring {
namespace {

std::string HostOfWorker(int rank) { return absl::StrCat("worker ", rank); }

std::string HostOfServer(const Hosts& hosts, int server) {
  return hosts.colocated_servers() ? HostOfWorker(server)
                                   : absl::StrCat("server ", server);
}

double DelayMs(const Hosts& hosts, const std::string& host) {
  for (const HostLink& link : hosts.links()) {
    if (link.host() == host && link.has_delay_ms()) return link.delay_ms();
  }
  return hosts.delay_ms();
}

absl::Duration DelayBetween(const Hosts& hosts, const std::string& host,
                            const std::string& other) {
  if (host == other) return absl::ZeroDuration();
  return absl::Milliseconds(DelayMs(hosts, host) + DelayMs(hosts, other));
}

}  // namespace

absl::Duration DelayBetweenWorkers(const JobSpec& spec, int rank, int other) {
  const Hosts* const hosts = HostsOf(spec);
  if (hosts == nullptr) return absl::ZeroDuration();
  return DelayBetween(*hosts, HostOfWorker(rank), HostOfWorker(other));
}

absl::Duration DelayToServer(const JobSpec& spec, int worker, int server) {
  const Hosts* const hosts = HostsOf(spec);
  if (hosts == nullptr) return absl::ZeroDuration();
  return DelayBetween(*hosts, HostOfWorker(worker), HostOfServer(*hosts, server));
}

int64_t BytesWithin(const JobSpec& spec, absl::Duration delay) {
  const Hosts* const hosts = HostsOf(spec);
  if (hosts == nullptr) return 0;
  double mbit_s = hosts->link_mbit_s();
  for (const HostLink& link : hosts->links()) {
    mbit_s = std::max({mbit_s, link.send_mbit_s(), link.receive_mbit_s()});
  }
  return static_cast<int64_t>(mbit_s * 1e6 / 8 * absl::ToDoubleSeconds(delay));
}

}  // namespace psring
