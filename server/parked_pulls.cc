#include "server/parked_pulls.h"

#include <utility>

namespace psring {

int64_t ParkedPulls::Park(const PullInfo& pull, absl::Duration since, PullDone done) {
  if (unused_.empty()) unused_.emplace_back();
  parked_.splice(parked_.end(), unused_, unused_.begin());
  ParkedPull& parked = parked_.back();
  parked.id = ++last_id_;
  parked.pull = pull;
  parked.since = since;
  parked.done = std::move(done);
  return parked.id;
}

ParkedPulls::List ParkedPulls::TakeDue(absl::FunctionRef<bool(ParkedPull& pull)> is_due) {
  List due;
  for (auto pull = parked_.begin(); pull != parked_.end();) {
    const auto next = std::next(pull);
    if (is_due(*pull)) due.splice(due.end(), parked_, pull);
    pull = next;
  }
  return due;
}

ParkedPulls::List ParkedPulls::Take(int64_t id) {
  return TakeDue([id](const ParkedPull& pull) { return pull.id == id; });
}

ParkedPulls::List ParkedPulls::TakeAll() { return std::exchange(parked_, List()); }

void ParkedPulls::GiveBack(List taken) { unused_.splice(unused_.end(), taken); }

}  // namespace psring
