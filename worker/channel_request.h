// One request of a parameter channel: what is sent, and what an answer to it means. No
// network in it.
#ifndef PSRING_WORKER_CHANNEL_REQUEST_H_
#define PSRING_WORKER_CHANNEL_REQUEST_H_

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "common/float_pieces.h"
#include "common/slot_plan.h"
#include "proto/parameter_server.pb.h"
#include "worker/parameter_channel.h"

namespace psring {

// Making one, and an answer without an error, allocate nothing.
struct ChannelRequest {
  // As the channel's methods of these names. The channel sets id and deadline.
  static ChannelRequest Initialize(const Slot& slot, std::span<const float> parameters,
                                   ParameterChannel::Done done);
  static ChannelRequest Pull(const Slot& slot, int64_t step, std::span<float> parameters,
                             ParameterChannel::PullDone done);
  static ChannelRequest Exchange(const Slot& slot, int64_t step, int64_t version,
                                 Bytes gradient, std::span<float> parameters,
                                 ParameterChannel::PullDone done);
  static ChannelRequest Snapshot(const Slot& slot, int64_t step,
                                 std::span<float> parameters,
                                 ParameterChannel::SnapshotDone done);
  static ChannelRequest Leave(ParameterChannel::Done done);

  // "the pull of ...", for errors.
  std::string What() const;

  // Sets the outcome: an answer's floats are copied to where they belong, its failure
  // becomes an error of the server, which `server` names.
  void TakeAnswer(ParameterAnswer answer, const FloatPieces& floats,
                  const std::string& server);

  // Tells the caller the outcome, which has been set; once.
  void Finish() const;

  ParameterRequest header;
  Bytes payload;                // To be sent.
  std::span<float> parameters;  // Where the answer's floats go.
  std::chrono::steady_clock::time_point deadline;
  std::variant<ParameterChannel::Done, ParameterChannel::PullDone,
               ParameterChannel::SnapshotDone>
      done;
  absl::StatusOr<ParameterAnswer> outcome;  // Without the payload.
};

}  // namespace psring

#endif  // PSRING_WORKER_CHANNEL_REQUEST_H_
