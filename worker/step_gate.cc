#include "worker/step_gate.h"

#include <utility>

#include "glog/logging.h"

namespace psring {

StepGate::StepGate(int64_t first_step, Save save, Reply reply)
    : save_(std::move(save)), reply_(std::move(reply)), next_(first_step) {}

absl::Status StepGate::Pass(int64_t next_step) {
  MutexLock lock(&mutex_);
  next_ = next_step;
  holding_ = true;
  while (aborted_.ok() && next_ >= hold_before_) {
    if (!std::exchange(told_, true)) ReplyLocked(CheckpointReply::HOLDS, next_);
    if (save_order_ && save_) {
      const CheckpointOrder order = *std::exchange(save_order_, std::nullopt);
      saved_round_ = order.round();
      holding_ = false;
      mutex_.Unlock();
      const absl::StatusOr<CheckpointPart> part = save_(order);
      mutex_.Lock();
      holding_ = true;
      if (!part.ok()) return part.status();
      CheckpointReply saved;
      saved.set_kind(CheckpointReply::SAVED);
      saved.set_round(order.round());
      *saved.mutable_file() = *part;
      reply_(saved);
      continue;
    }
    // The coordinator's next order ends this, or that somebody has not come in time.
    changed_.Wait(&mutex_);
  }
  holding_ = false;
  return aborted_;
}

void StepGate::Finish() {
  MutexLock lock(&mutex_);
  finished_ = true;
  ReplyLocked(CheckpointReply::FINISHED, next_);
}

void StepGate::Order(const CheckpointOrder& order) {
  MutexLock lock(&mutex_);
  switch (order.kind()) {
    case CheckpointOrder::HOLD:
      HoldLocked(order);
      break;
    case CheckpointOrder::SAVE:
      if (order.round() == round_ && round_ > saved_round_) save_order_ = order;
      break;
    case CheckpointOrder::RESUME:
      hold_before_ = kNone;
      break;
    default:
      LOG(WARNING) << "an order about checkpoints that this program does not know";
  }
  changed_.NotifyAll();
}

void StepGate::HoldLocked(const CheckpointOrder& order) {
  if (finished_) return ReplyLocked(CheckpointReply::FINISHED, next_);
  const bool is_new = order.round() != round_;
  round_ = order.round();
  if (order.before_step() > 0) {
    hold_before_ = order.before_step();
  } else if (is_new) {
    hold_before_ = holding_ ? next_ : next_ + 1;
    ReplyLocked(CheckpointReply::PROMISES, hold_before_);
  } else if (order.advance() > advance_ && holding_) {
    hold_before_ = next_ + 1;
  }
  advance_ = order.advance();
  // Whoever holds on says so again: it may be where all are to hold.
  told_ = false;
  save_order_.reset();
}

void StepGate::ReplyLocked(CheckpointReply::Kind kind, int64_t step) {
  CheckpointReply reply;
  reply.set_kind(kind);
  reply.set_round(round_);
  reply.set_step(step);
  reply.set_advance(advance_);
  reply_(reply);
}

void StepGate::Abort(const absl::Status& reason) {
  MutexLock lock(&mutex_);
  if (aborted_.ok()) aborted_ = reason;
  changed_.NotifyAll();
}

bool StepGate::holds() const {
  MutexLock lock(&mutex_);
  return holding_;
}

}  // namespace psring
