#include "common/liveness.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/errors.h"

namespace psring {
namespace {

// Checks further apart than this mean that the observer itself did not run.
constexpr absl::Duration kAbsence = absl::Seconds(1);

absl::Duration OrDefault(double seconds, absl::Duration otherwise) {
  return seconds > 0 ? absl::Seconds(seconds) : otherwise;
}

}  // namespace

LivenessSettings SettingsOf(const Liveness& liveness) {
  const LivenessSettings defaults;
  return {.heartbeat = OrDefault(liveness.heartbeat_seconds(), defaults.heartbeat),
          .dead = OrDefault(liveness.dead_seconds(), defaults.dead),
          .stall = OrDefault(liveness.stall_seconds(), defaults.stall)};
}

std::string Describe(const Activity& activity) {
  std::string text = activity.under_way()
                         ? absl::StrCat("step ", activity.step(), ", ", activity.phase())
                         : activity.phase();
  if (!activity.awaiting().empty()) absl::StrAppend(&text, " for ", activity.awaiting());
  return text.empty() ? "just started" : text;
}

void LivenessJudge::Join(const std::string& name, absl::Duration now) {
  members_[name] = {.heard = now, .advanced = now, .warned = false, .activity = {}};
}

void LivenessJudge::Hear(const std::string& name, const Activity& activity,
                         absl::Duration now) {
  const auto it = members_.find(name);
  if (it == members_.end()) return;  // It has left; this was still on the way.
  Watched& member = it->second;
  member.heard = now;
  if (activity.progress() != member.activity.progress() ||
      activity.under_way() != member.activity.under_way()) {
    member.advanced = now;
    member.warned = false;
  }
  member.activity = activity;
}

void LivenessJudge::Leave(const std::string& name) { members_.erase(name); }

LivenessJudge::Findings LivenessJudge::Check(absl::Duration now) {
  ForgiveOwnAbsence(now);
  Findings findings{.error = FindDead(now), .warnings = {}};
  if (findings.error.ok()) FindStalled(now, &findings);
  return findings;
}

void LivenessJudge::ForgiveOwnAbsence(absl::Duration now) {
  const absl::Duration since_check = now - last_check_;
  if (last_check_ != -absl::InfiniteDuration() && since_check > kAbsence) {
    for (auto& [name, member] : members_) {
      member.heard = std::min(now, member.heard + since_check);
      member.advanced = std::min(now, member.advanced + since_check);
    }
  }
  last_check_ = now;
}

absl::Status LivenessJudge::FindDead(absl::Duration now) const {
  for (const auto& [name, member] : members_) {
    if (now - member.heard < settings_.dead) continue;
    return PeerLostError(
        absl::StrCat(name, " is dead: it has not been heard of for ",
                     absl::FormatDuration(settings_.dead),
                     " (its process or host is gone, frozen or cut off); last seen at ",
                     Describe(member.activity)));
  }
  return absl::OkStatus();
}

std::vector<std::string> LivenessJudge::StuckFor(absl::Duration duration,
                                                 absl::Duration now) const {
  std::vector<std::string> stuck;
  for (const auto& [name, member] : members_) {
    if (member.activity.under_way() && now - member.advanced >= duration) {
      stuck.push_back(name);
    }
  }
  return stuck;
}

std::vector<std::string> LivenessJudge::Culprits(absl::Duration duration,
                                                 absl::Duration now) const {
  const std::vector<std::string> stuck = StuckFor(duration, now);
  if (stuck.empty()) return {};
  std::vector<std::string> culprits;
  for (const std::string& name : stuck) {
    if (members_.at(name).activity.awaiting().empty()) culprits.push_back(name);
  }
  if (!culprits.empty()) return culprits;
  // All that are stuck wait. As long as anybody gets on, it may be the one they wait for.
  const bool all_stuck =
      std::all_of(members_.begin(), members_.end(), [&](const auto& member) {
        return !member.second.activity.under_way() ||
               now - member.second.advanced >= duration;
      });
  return all_stuck ? stuck : culprits;
}

void LivenessJudge::FindStalled(absl::Duration now, Findings* findings) {
  const auto describe = [this](std::string* out, const std::string& name) {
    absl::StrAppend(out, name, " (", Describe(members_.at(name).activity), ")");
  };
  const std::vector<std::string> culprits = Culprits(settings_.stall, now);
  if (!culprits.empty()) {
    std::vector<std::string> victims = StuckFor(settings_.stall / 2, now);
    std::erase_if(victims, [&](const std::string& name) {
      return std::find(culprits.begin(), culprits.end(), name) != culprits.end();
    });
    findings->error = PeerLostError(absl::StrCat(
        absl::StrJoin(culprits, ", ", describe), culprits.size() == 1 ? " is" : " are",
        " stalled: no progress for ", absl::FormatDuration(settings_.stall),
        victims.empty()
            ? ""
            : absl::StrCat("; held up: ", absl::StrJoin(victims, ", ", describe))));
    return;
  }
  for (const std::string& name : Culprits(settings_.stall / 2, now)) {
    Watched& member = members_.at(name);
    if (member.warned) continue;
    member.warned = true;
    findings->warnings.push_back(absl::StrCat(
        name, " has made no progress for ", absl::FormatDuration(settings_.stall / 2),
        " (", Describe(member.activity), "); it is given up as stalled after ",
        absl::FormatDuration(settings_.stall)));
  }
}

}  // namespace psring
