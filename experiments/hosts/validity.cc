#include "experiments/hosts/validity.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job_plan.h"
#include "experiments/hosts/link_reading.h"
#include "experiments/text.h"

namespace psring {
namespace {

// What has no more than this to spare is at the limit of its link, however busy the
// processors are: losses and the first round trips of an exchange leave a link unused for
// some percent.
constexpr double kFull = 0.9;
// Below, more than half of the time belongs to something else. An exchange that sends
// everything before it receives anything back uses either direction for half of the time.
constexpr double kLeastUse = 0.5;
// So many readings must have had a chance to find a queue. Of a link at its limit most
// do: that none of 5 does has a chance of 3 % even where only half of the time one waits.
constexpr double kEnoughReadings = 5;

// What the experiment delays beside the links' speed, or nothing.
std::string SlowedOnPurpose(const JobSpec& spec) {
  const Hosts* const hosts = HostsOf(spec);
  const bool delayed =
      hosts != nullptr &&
      (hosts->delay_ms() > 0 ||
       std::any_of(hosts->links().begin(), hosts->links().end(),
                   [](const HostLink& link) { return link.delay_ms() > 0; }));
  if (delayed) return "links with delay";
  const bool slow = spec.experiment().inject().slow_worker_size() > 0 ||
                    spec.experiment().compute().emulated().rank_factor_size() > 0;
  return slow ? "slow workers" : "";
}

// The share of idle processors while gradients were on their way is in this range: the
// readings' intervals are longer, by what came before and after.
struct IdleRange {
  double lowest = 0;
  double highest = 1;
};

IdleRange IdleWhileMoving(const LinkUsage& usage) {
  const double moving = usage.moving_seconds;
  const double watched = std::max(usage.seconds_in_use, moving);
  const double idle = usage.idle_processors * watched;
  return {.lowest = std::max(0.0, (idle - (watched - moving)) / moving),
          .highest = std::min(1.0, idle / moving)};
}

Validity Void(std::string cause, std::string why) {
  return {
      .kind = Validity::Kind::kVoid, .cause = std::move(cause), .why = std::move(why)};
}

Validity CannotBeTold(std::string cause, std::string why) {
  return {.kind = Validity::Kind::kCannotBeTold,
          .cause = std::move(cause),
          .why = std::move(why)};
}

}  // namespace

const char* ToString(Validity::Kind kind) {
  switch (kind) {
    case Validity::Kind::kValid:
      return "valid";
    case Validity::Kind::kVoid:
      return "void";
    case Validity::Kind::kCannotBeTold:
      return "cannot be told";
  }
  return "";
}

Validity ValidityOf(const JobSpec& spec, const LinkUsage& usage) {
  const LinkUse& link = usage.links[usage.busiest];
  const std::string name =
      absl::StrCat("the busiest link, ", link.host, link.out ? " out" : " in");
  const std::string used =
      absl::StrCat(name, ", was used for ", RoughPercent(link.utilisation),
                   " of the time in which gradients were on their way");

  const IdleRange idle = IdleWhileMoving(usage);
  const bool full = link.utilisation >= kFull;
  const std::string processors = absl::StrCat(
      "the processors were idle ", RoughPercent(usage.idle_processors), " of the time");
  if (!full && idle.highest < kIdleEnough) {
    return Void("processors", absl::StrCat(processors, ", less than ",
                                           RoughPercent(kIdleEnough), ", and ", used));
  }

  const bool queued =
      std::any_of(usage.links.begin(), usage.links.end(),
                  [](const LinkUse& other) { return other.backlog_bytes > 0; });
  const bool never_busy = !queued && usage.peak_utilisation < kLeastUse;
  const double chances =
      usage.seconds_in_use == 0
          ? 0
          : usage.intervals_in_use * usage.moving_seconds / usage.seconds_in_use;
  const std::string nothing = absl::StrCat(
      "no reading has found a packet waiting, and ", name, ", was used for at most ",
      RoughPercent(usage.peak_utilisation), " between two");
  const bool watched = never_busy && chances >= kEnoughReadings;
  if (watched || link.utilisation < kLeastUse) {
    const std::string why =
        watched ? nothing : absl::StrCat(used, ", less than ", RoughPercent(kLeastUse));
    if (const std::string slowed = SlowedOnPurpose(spec); !slowed.empty()) {
      return CannotBeTold(slowed, absl::StrCat(why, ", with ", slowed));
    }
    return Void(watched ? "link never busy" : "low load", why);
  }
  if (never_busy) {
    return CannotBeTold(
        "too short", absl::StrFormat("%s, but only about %.1f were taken while gradients "
                                     "were on their way",
                                     nothing, chances));
  }
  if (!full && idle.lowest < kIdleEnough) {
    return CannotBeTold(
        "processors",
        absl::StrCat(processors, " between readings, ", RoughPercent(idle.lowest), " to ",
                     RoughPercent(idle.highest),
                     " while gradients were on their way, and ", used));
  }
  return {};
}

}  // namespace psring
