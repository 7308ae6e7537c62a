#include "experiments/hosts/host_settings.h"

#include <algorithm>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"
#include "experiments/text.h"

namespace psring {
namespace {

// What the kernel's token bucket can express.
constexpr int64_t kSlowestMbit = 1;
constexpr int64_t kFastestMbit = 100'000;
// Room for the largest packet on the wire, and for what the kernel's 32 bits of time
// take.
constexpr int64_t kSmallestBytes = 2'000;
constexpr int64_t kMostBurstBytes = 16 << 20;
constexpr int64_t kMostQueueBytes = 1 << 30;

constexpr int64_t kLeastQueueBytes = 256 << 10;
constexpr int64_t kLeastBurstBytes = 32 << 10;
constexpr double kQueueSeconds = 0.008;
constexpr double kBurstSeconds = 0.001;

constexpr int64_t kMostDelayMs = 10'000;

// Whether `name` is `prefix` and a number below `count`, written as we write it.
bool Names(absl::string_view name, absl::string_view prefix, int64_t count) {
  const absl::string_view whole = name;
  int64_t number = 0;
  return absl::ConsumePrefix(&name, prefix) && absl::SimpleAtoi(name, &number) &&
         number >= 0 && number < count && absl::StrCat(prefix, number) == whole;
}

class Checker {
 public:
  Checker(int64_t workers, int64_t servers, absl::Duration stall, const std::string& path,
          const FieldOrigins& origins)
      : workers_(workers),
        servers_(servers),
        stall_(stall),
        path_(path),
        origins_(origins) {}

  absl::Status Check(const Hosts& hosts) const {
    RETURN_IF_ERROR(CheckSpeed(".link_mbit_s", hosts.link_mbit_s(), /*required=*/true));
    RETURN_IF_ERROR(CheckDelay(".delay_ms", hosts.delay_ms()));
    std::set<std::string> seen;
    for (int i = 0; i < hosts.links_size(); ++i) {
      const HostLink& link = hosts.links(i);
      const std::string field = absl::StrCat(".links[", i, "]");
      RETURN_IF_ERROR(CheckHost(field + ".host", link.host(), &seen));
      RETURN_IF_ERROR(CheckSpeed(field + ".send_mbit_s", link.send_mbit_s(), false));
      RETURN_IF_ERROR(
          CheckSpeed(field + ".receive_mbit_s", link.receive_mbit_s(), false));
      RETURN_IF_ERROR(CheckDelay(field + ".delay_ms", link.delay_ms()));
    }
    RETURN_IF_ERROR(CheckBytes(".queue_bytes", hosts.queue_bytes(), kMostQueueBytes));
    RETURN_IF_ERROR(CheckBytes(".burst_bytes", hosts.burst_bytes(), kMostBurstBytes));
    if (!Hosts::CongestionControl_IsValid(hosts.congestion_control())) {
      return Wrong(".congestion_control",
                   absl::StrCat("is ", int{hosts.congestion_control()}),
                   ValueNames(*Hosts::CongestionControl_descriptor()));
    }
    return hosts.has_racks() ? CheckRacks(hosts.racks()) : absl::OkStatus();
  }

 private:
  absl::Status Wrong(const std::string& field, const std::string& problem,
                     const std::string& allowed) const {
    return origins_.Error(path_ + field, problem, allowed);
  }

  absl::Status CheckSpeed(const std::string& field, double mbit, bool required) const {
    const bool written = origins_.Has(path_ + field);
    if (!written && !required) return absl::OkStatus();
    if (mbit >= kSlowestMbit && mbit <= kFastestMbit) return absl::OkStatus();
    return Wrong(field, written ? absl::StrCat("is ", mbit) : "missing",
                 absl::StrCat(kSlowestMbit, " to ", WithThousands(kFastestMbit)));
  }

  absl::Status CheckDelay(const std::string& field, double ms) const {
    const std::string range = absl::StrCat("0 to ", WithThousands(kMostDelayMs));
    if (!(ms >= 0 && ms <= static_cast<double>(kMostDelayMs))) {
      return Wrong(field, absl::StrCat("is ", ms), range);
    }
    // What an all-reduce of a ring and an exchange with a server take, each over two
    // links, must be far from what is taken for a stall.
    const int64_t ways = 2 * std::max<int64_t>(workers_ - 1, 1);
    const absl::Duration longest = ways * 2 * absl::Milliseconds(ms);
    if (longest <= stall_ / 2) return absl::OkStatus();
    return Wrong(
        field,
        absl::StrCat("is ", ms, ", and ", ways, " ways over two such links take ",
                     absl::FormatDuration(longest)),
        absl::StrCat(range, ", with which they take at most half of ",
                     "liveness.stall_seconds, ", absl::FormatDuration(stall_ / 2)));
  }

  absl::Status CheckBytes(const std::string& field, int64_t bytes, int64_t most) const {
    if (!origins_.Has(path_ + field) || (bytes >= kSmallestBytes && bytes <= most)) {
      return absl::OkStatus();
    }
    return Wrong(field, absl::StrCat("is ", bytes),
                 absl::StrCat(kSmallestBytes, " to ", most));
  }

  absl::Status CheckHost(const std::string& field, const std::string& name,
                         std::set<std::string>* seen) const {
    std::string allowed = absl::StrCat("\"worker 0\" to \"worker ", workers_ - 1, "\"");
    if (servers_ > 0) {
      absl::StrAppend(&allowed, ", \"server 0\" to \"server ", servers_ - 1, "\"");
    }
    if (!Names(name, "worker ", workers_) && !Names(name, "server ", servers_)) {
      return Wrong(field,
                   name.empty() ? "missing"
                                : absl::StrCat("no arm has a host '",
                                               absl::Utf8SafeCEscape(name), "'"),
                   allowed);
    }
    if (!seen->insert(name).second) {
      return Wrong(field, absl::StrCat("'", name, "' is named twice"), "each host once");
    }
    return absl::OkStatus();
  }

  absl::Status CheckRacks(const Racks& racks) const {
    RETURN_IF_ERROR(CheckSpeed(".racks.link_mbit_s", racks.link_mbit_s(), true));
    if (racks.second().empty()) {
      return Wrong(".racks.second", "missing", "one or more hosts");
    }
    std::set<std::string> seen;
    for (int i = 0; i < racks.second_size(); ++i) {
      RETURN_IF_ERROR(
          CheckHost(absl::StrCat(".racks.second[", i, "]"), racks.second(i), &seen));
    }
    return absl::OkStatus();
  }

  const int64_t workers_;
  const int64_t servers_;
  const absl::Duration stall_;
  const std::string& path_;
  const FieldOrigins& origins_;
};

std::string Speed(double mbit) { return absl::StrCat(mbit); }

// Nothing where there is none.
std::string DescribeDelays(const Hosts& hosts) {
  bool any = hosts.delay_ms() > 0;
  std::vector<std::string> others;
  for (const HostLink& link : hosts.links()) {
    if (!link.has_delay_ms() || link.delay_ms() == hosts.delay_ms()) continue;
    any = true;
    others.push_back(absl::StrCat(link.host(), ": ", link.delay_ms(), " ms"));
  }
  if (!any) return "";
  return absl::StrCat(
      ", ", hosts.delay_ms(), " ms delay of each link",
      others.empty() ? "" : absl::StrCat(" (", absl::StrJoin(others, "; "), ")"),
      ", added by psring's transports");
}

}  // namespace

absl::Status CheckHosts(const Hosts& hosts, int64_t workers, int64_t servers,
                        absl::Duration stall, const std::string& path,
                        const FieldOrigins& origins) {
  // Servers on the workers' hosts have none that could be named.
  const int64_t own = hosts.colocated_servers() ? 0 : servers;
  return Checker(workers, own, stall, path, origins).Check(hosts);
}

void FillHostDefaults(Hosts* hosts) {
  double fastest = hosts->link_mbit_s();
  for (HostLink& link : *hosts->mutable_links()) {
    if (link.send_mbit_s() == 0) link.set_send_mbit_s(hosts->link_mbit_s());
    if (link.receive_mbit_s() == 0) link.set_receive_mbit_s(hosts->link_mbit_s());
    if (!link.has_delay_ms() && hosts->delay_ms() > 0) {
      link.set_delay_ms(hosts->delay_ms());
    }
    fastest = std::max({fastest, link.send_mbit_s(), link.receive_mbit_s()});
  }
  if (hosts->has_racks()) fastest = std::max(fastest, hosts->racks().link_mbit_s());
  const auto in = [fastest](double seconds, int64_t least) {
    return std::max(least, static_cast<int64_t>(fastest * 1e6 / 8 * seconds));
  };
  if (hosts->queue_bytes() == 0) {
    hosts->set_queue_bytes(in(kQueueSeconds, kLeastQueueBytes));
  }
  if (hosts->burst_bytes() == 0) {
    hosts->set_burst_bytes(in(kBurstSeconds, kLeastBurstBytes));
  }
}

std::string CongestionControlName(const Hosts& hosts) {
  return absl::AsciiStrToLower(Hosts::CongestionControl_Name(hosts.congestion_control()));
}

std::string DescribeHosts(const Hosts& hosts) {
  std::vector<std::string> others;
  for (const HostLink& link : hosts.links()) {
    others.push_back(absl::StrCat(link.host(), ": sends ", Speed(link.send_mbit_s()),
                                  ", receives ", Speed(link.receive_mbit_s())));
  }
  std::string text = absl::StrCat("links of ", Speed(hosts.link_mbit_s()), " Mbit/s");
  if (!others.empty()) absl::StrAppend(&text, " (", absl::StrJoin(others, "; "), ")");
  absl::StrAppend(&text, ", queues of ", WithThousands(hosts.queue_bytes()),
                  " bytes, bursts of ", WithThousands(hosts.burst_bytes()), " bytes, ",
                  CongestionControlName(hosts));
  if (hosts.colocated_servers()) {
    absl::StrAppend(&text, ", server k on the host of worker k");
  }
  if (hosts.has_racks()) {
    absl::StrAppend(&text, ", ", Speed(hosts.racks().link_mbit_s()),
                    " Mbit/s between two racks, the second with ",
                    absl::StrJoin(hosts.racks().second(), ", "));
  }
  return text + DescribeDelays(hosts);
}

}  // namespace psring
