// When everybody stops for a checkpoint, and when they go on. No I/O.
#ifndef PSRING_COMMON_CHECKPOINT_ROUNDS_H_
#define PSRING_COMMON_CHECKPOINT_ROUNDS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "proto/coordinator.pb.h"

namespace psring {

// A checkpoint is taken while every worker is between two steps: then no gradient is on
// its way, every slot has counted the same contributions, and no round is open. The
// coordinator brings that about, in one round per checkpoint:
//
//   coordinator                            worker (worker/step_gate.h)
//     HOLD, before your next step  ------>   at once, whatever it is doing
//     <--------------- PROMISES to hold before step 12
//     HOLD, before step 13  ------------->   12 was promised, 13 by another
//     <--------------- HOLDS before step 13
//     SAVE  ----------------------------->   and servers: write their parts
//     <--------------- SAVED
//     RESUME, or the next HOLD ---------->   the manifest has been written
//
// In lockstep nobody can end a step that another does not make. So the step to hold
// before is one that nobody has begun: the highest that was promised. Where it is known
// from the start, because checkpoints are due, it is ordered from the start, and costs no
// message.
//
// Elsewhere each holds where it is, and steps may differ. Somebody may then wait in a
// step for one that holds already. So whenever not all have come within some time, those
// that hold make one more step each, which lets the others get further; the time doubles,
// so that at last it is longer than anybody's step, and all hold.
//
// That need not come to an end where rounds close without some of the workers, and each
// slot's without others: two groups may then wait for each other in turn, each in a slot
// that the other has left behind. So after a few such steps all go on as if nothing had
// been asked, and soon are asked anew, where they are by then; with twice the time, for
// steps that are long.
//
// Where not all hold within the deadline, nobody waits any longer: there is no checkpoint
// this time, and all go on.
//
// A worker that has made its last step ends this: the run is about to end.
class CheckpointRounds {
 public:
  struct Plan {
    int workers = 0;
    int servers = 0;  // They own all parameters; without any, the workers do.
    bool lockstep = false;
    int64_t steps = 0;  // Of the whole run.
    // In lockstep: a checkpoint is due whenever so many more have been made; 0: never.
    int64_t every_steps = 0;
    int64_t first_step = 0;                              // Of this run, in lockstep.
    std::string folder;                                  // Of the arm's checkpoints.
    absl::Duration deadline = absl::InfiniteDuration();  // For all to hold.
    // The longest time for which who holds may keep others waiting.
    absl::Duration most_patience = absl::InfiniteDuration();
  };

  struct Saved {
    int64_t step = 0;
    std::vector<int64_t> next_steps;  // By rank.
    std::string folder;
    std::vector<CheckpointPart> parts;  // Servers or workers, by rank.
  };

  // What is to be done.
  struct Outcome {
    std::optional<CheckpointOrder> order;  // To be sent to all.
    // All parts are written: the manifest is due, and then a call of Complete.
    std::optional<Saved> saved;
    // The checkpoint that was asked for is not made, or has been made before, and why.
    std::string instead;
    // A worker has made its last step, so that the run ends by itself.
    bool ends = false;
  };

  static constexpr absl::Duration kFirstPatience = absl::Milliseconds(100);
  // Steps that those who hold make before all go on for a while.
  static constexpr int64_t kMostAdvances = 4;

  explicit CheckpointRounds(Plan plan);

  // The first thing to be sent, if any.
  Outcome Start();
  // A checkpoint is wanted as soon as possible; one that is under way will do.
  Outcome Request(absl::Duration now);
  Outcome Take(const Member& from, const CheckpointReply& reply);
  // A few times a second.
  Outcome Tick(absl::Duration now);
  // The manifest has been written.
  Outcome Complete();

  // Whether all are being stopped, or are.
  bool under_way() const { return state_ != State::kIdle && state_ != State::kDue; }

 private:
  enum class State {
    kIdle,     // Nobody has been told to hold.
    kDue,      // All will hold before a step that is some way off.
    kHolding,  // All are asked to hold as soon as possible.
    kPausing,  // All go on, and will be asked that again.
    kSaving,
    kCompleting,
  };

  Outcome Hold(int64_t before_step);
  Outcome Resume() const;
  Outcome Advance();
  // Whether a checkpoint has been asked for that is not being written yet.
  bool IsAsked() const { return state_ == State::kHolding || state_ == State::kPausing; }
  Outcome Save();
  // What comes when a checkpoint has been made, or is not.
  Outcome GoOn();
  Outcome Cancel(std::string why);
  Outcome GiveUp();
  bool AllHold() const;

  const Plan plan_;
  State state_ = State::kIdle;
  int64_t round_ = 0;
  bool finished_ = false;
  std::optional<int64_t> saved_step_;
  int64_t begun_ = 0;  // In lockstep: when a round was given up, nobody was beyond it.
  // Of this round.
  int64_t before_step_ = 0;  // 0: not known yet.
  int64_t advance_ = 0;
  absl::Duration began_;
  absl::Duration first_patience_;  // Since all were asked the last time.
  absl::Duration patience_;
  absl::Duration patient_until_;     // Or until when all go on.
  std::map<int, int64_t> promised_;  // By rank.
  std::map<int, int64_t> holds_;     // By rank: those that count.
  std::map<int, CheckpointPart> parts_;
};

}  // namespace psring

#endif  // PSRING_COMMON_CHECKPOINT_ROUNDS_H_
