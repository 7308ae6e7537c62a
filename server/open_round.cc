#include "server/open_round.h"

#include <algorithm>
#include <utility>

#include "glog/logging.h"

namespace psring {

void OpenRound::Hold(HeldPush held) {
  const int rank = held.push.rank;
  CHECK(!held_[rank].has_value());
  terms_[rank] = std::move(held.contribution.gradient);
  held_[rank] = std::move(held);
  ++count_;
}

const HeldPush& OpenRound::only() const {
  CHECK_EQ(count_, 1);
  return **std::find_if(held_.begin(), held_.end(),
                        [](const auto& held) { return held.has_value(); });
}

void OpenRound::Clear() {
  for (FloatPieces& term : terms_) term = FloatPieces();
  for (std::optional<HeldPush>& held : held_) held.reset();
  count_ = 0;
}

}  // namespace psring
