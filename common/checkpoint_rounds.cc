#include "common/checkpoint_rounds.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/checkpoint.h"

namespace psring {

CheckpointRounds::CheckpointRounds(Plan plan) : plan_(std::move(plan)) {}

CheckpointRounds::Outcome CheckpointRounds::Start() { return GoOn(); }

CheckpointRounds::Outcome CheckpointRounds::Request(absl::Duration now) {
  if (under_way()) return {};
  if (finished_) {
    Outcome outcome;
    outcome.instead = "a worker has made its last step";
    outcome.ends = true;
    return outcome;
  }
  began_ = now;
  patience_ = first_patience_ = kFirstPatience;
  patient_until_ = now + patience_;
  state_ = State::kHolding;
  return Hold(/*before_step=*/0);
}

CheckpointRounds::Outcome CheckpointRounds::Hold(int64_t before_step) {
  ++round_;
  before_step_ = before_step;
  advance_ = 0;
  promised_.clear();
  holds_.clear();
  parts_.clear();
  Outcome outcome;
  outcome.order.emplace();
  outcome.order->set_kind(CheckpointOrder::HOLD);
  outcome.order->set_round(round_);
  outcome.order->set_before_step(before_step);
  return outcome;
}

CheckpointRounds::Outcome CheckpointRounds::Take(const Member& from,
                                                 const CheckpointReply& reply) {
  if (reply.kind() == CheckpointReply::FINISHED) {
    finished_ = true;
    if (state_ == State::kDue || IsAsked()) {
      Outcome outcome =
          Cancel(absl::StrCat("worker ", from.rank(), " has made its last step"));
      outcome.ends = true;
      return outcome;
    }
    return {};
  }
  if (reply.round() != round_) return {};
  const bool holding = state_ == State::kDue || state_ == State::kHolding;
  switch (reply.kind()) {
    case CheckpointReply::PROMISES: {
      if (!holding || !plan_.lockstep || before_step_ != 0) return {};
      promised_[from.rank()] = reply.step();
      if (static_cast<int>(promised_.size()) < plan_.workers) return {};
      for (const auto& [rank, step] : promised_) {
        before_step_ = std::max(before_step_, step);
      }
      Outcome outcome;
      outcome.order.emplace();
      outcome.order->set_kind(CheckpointOrder::HOLD);
      outcome.order->set_round(round_);
      outcome.order->set_before_step(before_step_);
      // Some may hold there already.
      if (AllHold()) return Save();
      return outcome;
    }
    case CheckpointReply::HOLDS:
      if (!holding || reply.advance() != advance_) return {};
      holds_[from.rank()] = reply.step();
      return AllHold() ? Save() : Outcome();
    case CheckpointReply::SAVED: {
      const bool owner = (from.role() == SERVER) == (plan_.servers > 0);
      if (state_ != State::kSaving || !owner) return {};
      parts_[from.rank()] = reply.file();
      const int owners = plan_.servers > 0 ? plan_.servers : plan_.workers;
      if (static_cast<int>(parts_.size()) < owners) return {};
      state_ = State::kCompleting;
      Saved saved;
      saved.step = *saved_step_;
      for (const auto& [rank, step] : holds_) saved.next_steps.push_back(step);
      saved.folder = CheckpointFolder(plan_.folder, saved.step);
      for (const auto& [rank, part] : parts_) saved.parts.push_back(part);
      Outcome outcome;
      outcome.saved = std::move(saved);
      return outcome;
    }
    default:
      return {};
  }
}

bool CheckpointRounds::AllHold() const {
  if (static_cast<int>(holds_.size()) < plan_.workers) return false;
  if (!plan_.lockstep) return true;
  return before_step_ != 0 &&
         std::all_of(holds_.begin(), holds_.end(),
                     [&](const auto& hold) { return hold.second == before_step_; });
}

CheckpointRounds::Outcome CheckpointRounds::Save() {
  const int64_t sum = std::accumulate(
      holds_.begin(), holds_.end(), int64_t{0},
      [](int64_t steps, const auto& hold) { return steps + hold.second; });
  const int64_t step = sum / plan_.workers;
  if (saved_step_ == step) return Cancel("there is one of this step already");
  saved_step_ = step;
  state_ = State::kSaving;
  Outcome outcome;
  outcome.order.emplace();
  outcome.order->set_kind(CheckpointOrder::SAVE);
  outcome.order->set_round(round_);
  outcome.order->set_step(step);
  outcome.order->set_folder(CheckpointFolder(plan_.folder, step));
  return outcome;
}

CheckpointRounds::Outcome CheckpointRounds::Tick(absl::Duration now) {
  if (!IsAsked()) return {};
  if (now - began_ > plan_.deadline) return GiveUp();
  if (plan_.lockstep || now < patient_until_) return {};
  if (state_ == State::kPausing) {
    state_ = State::kHolding;
    patience_ = first_patience_ = std::min(2 * first_patience_, plan_.most_patience);
    patient_until_ = now + patience_;
    return Hold(/*before_step=*/0);
  }
  if (holds_.empty()) return {};
  if (advance_ == kMostAdvances) {
    state_ = State::kPausing;
    patient_until_ = now + first_patience_;
    return Resume();
  }
  patience_ = std::min(2 * patience_, plan_.most_patience);
  patient_until_ = now + patience_;
  return Advance();
}

CheckpointRounds::Outcome CheckpointRounds::Advance() {
  ++advance_;
  holds_.clear();
  Outcome outcome;
  outcome.order.emplace();
  outcome.order->set_kind(CheckpointOrder::HOLD);
  outcome.order->set_round(round_);
  outcome.order->set_advance(advance_);
  return outcome;
}

CheckpointRounds::Outcome CheckpointRounds::Resume() const {
  Outcome outcome;
  outcome.order.emplace();
  outcome.order->set_kind(CheckpointOrder::RESUME);
  outcome.order->set_round(round_);
  return outcome;
}

CheckpointRounds::Outcome CheckpointRounds::GiveUp() {
  // In lockstep one promise is enough to know how far all can have come. Without any,
  // nobody has heard of this, and nobody holds: who is silent for so long is lost.
  if (plan_.lockstep && promised_.empty()) return {};
  std::vector<std::string> missing;
  for (int rank = 0; rank < plan_.workers; ++rank) {
    if (!holds_.contains(rank)) missing.push_back(absl::StrCat("worker ", rank));
  }
  for (const auto& [rank, step] : promised_) begun_ = std::max(begun_, step);
  return Cancel(absl::StrCat(
      "not all workers came to hold within ", absl::FormatDuration(plan_.deadline), ": ",
      missing.empty() ? "they hold before different steps"
                      : absl::StrCat("in a step: ", absl::StrJoin(missing, ", "))));
}

CheckpointRounds::Outcome CheckpointRounds::Complete() { return GoOn(); }

CheckpointRounds::Outcome CheckpointRounds::GoOn() {
  const bool held = state_ != State::kIdle;
  state_ = State::kIdle;
  if (plan_.lockstep && plan_.every_steps > 0 && !finished_) {
    const int64_t made = std::max({plan_.first_step, saved_step_.value_or(0), begun_});
    const int64_t due = (made / plan_.every_steps + 1) * plan_.every_steps;
    if (due < plan_.steps) {
      state_ = State::kDue;
      return Hold(due);
    }
  }
  return held ? Resume() : Outcome();
}

CheckpointRounds::Outcome CheckpointRounds::Cancel(std::string why) {
  const bool asked = IsAsked();
  Outcome outcome = GoOn();
  if (asked) outcome.instead = std::move(why);
  return outcome;
}

}  // namespace psring
