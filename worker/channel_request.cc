#include "worker/channel_request.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/errors.h"

namespace psring {
namespace {

using AnswerOr = absl::StatusOr<ParameterAnswer>;

ChannelRequest Make(ParameterRequest::Operation operation, const Slot& slot,
                    int64_t step) {
  ChannelRequest request;
  request.header.set_operation(operation);
  request.header.set_slot(slot.index);
  request.header.set_step(step);
  return request;
}

void Tell(const ParameterChannel::Done& done, const AnswerOr& outcome) {
  done(outcome.status());
}

void Tell(const ParameterChannel::PullDone& done, const AnswerOr& outcome) {
  if (!outcome.ok()) {
    done(outcome.status());
    return;
  }
  done(Pulled{.version = outcome->version(),
              .step = outcome->step(),
              .finished = outcome->finished(),
              .parked = absl::Nanoseconds(outcome->parked_ns()),
              .released_by = outcome->released_by(),
              .working = absl::Nanoseconds(outcome->working_ns())});
}

void Tell(const ParameterChannel::SnapshotDone& done, const AnswerOr& outcome) {
  if (!outcome.ok()) {
    done(outcome.status());
    return;
  }
  done(SnapshotInfo{.version = outcome->version(),
                    .time = absl::Nanoseconds(outcome->time_ns())});
}

}  // namespace

ChannelRequest ChannelRequest::Initialize(const Slot& slot,
                                          std::span<const float> parameters,
                                          ParameterChannel::Done done) {
  ChannelRequest request = Make(ParameterRequest::INITIALIZE, slot, /*step=*/0);
  request.payload = std::as_bytes(parameters);
  request.done = std::move(done);
  return request;
}

ChannelRequest ChannelRequest::Pull(const Slot& slot, int64_t step,
                                    std::span<float> parameters,
                                    ParameterChannel::PullDone done) {
  ChannelRequest request = Make(ParameterRequest::PULL, slot, step);
  request.parameters = parameters;
  request.done = std::move(done);
  return request;
}

ChannelRequest ChannelRequest::Exchange(const Slot& slot, int64_t step, int64_t version,
                                        Bytes gradient, std::span<float> parameters,
                                        ParameterChannel::PullDone done) {
  ChannelRequest request = Make(ParameterRequest::EXCHANGE, slot, step);
  request.header.set_version(version);
  request.payload = gradient;
  request.parameters = parameters;
  request.done = std::move(done);
  return request;
}

ChannelRequest ChannelRequest::Snapshot(const Slot& slot, int64_t step,
                                        std::span<float> parameters,
                                        ParameterChannel::SnapshotDone done) {
  ChannelRequest request = Make(ParameterRequest::SNAPSHOT, slot, step);
  request.parameters = parameters;
  request.done = std::move(done);
  return request;
}

ChannelRequest ChannelRequest::Leave(ParameterChannel::Done done) {
  ChannelRequest request;
  request.header.set_operation(ParameterRequest::LEAVE);
  request.done = std::move(done);
  return request;
}

std::string ChannelRequest::What() const {
  const int slot = header.slot();
  const int64_t step = header.step();
  switch (header.operation()) {
    case ParameterRequest::INITIALIZE:
      return absl::StrCat("the initialization of slot ", slot);
    case ParameterRequest::PULL:
      return absl::StrCat("the pull of slot ", slot, " for step ", step);
    case ParameterRequest::EXCHANGE:
      return absl::StrCat("the exchange of slot ", slot, ", step ", step);
    case ParameterRequest::SNAPSHOT:
      return absl::StrCat("the snapshot of slot ", slot, " after step ", step);
    default:
      return "leaving";
  }
}

void ChannelRequest::TakeAnswer(ParameterAnswer answer, const FloatPieces& floats,
                                const std::string& server) {
  if (answer.has_failure()) {
    outcome = Annotate(FromFailure(answer.failure()), absl::StrCat(server, ": ", What()));
  } else if (floats.count() != static_cast<int64_t>(parameters.size())) {
    outcome = absl::InternalError(absl::StrCat(
        server, ": ", What(), ": the answer has ", floats.count() * sizeof(float),
        " bytes, the slot has ", parameters.size_bytes(), " here"));
  } else {
    floats.CopyTo(parameters);
    outcome = std::move(answer);
  }
}

void ChannelRequest::Finish() const {
  std::visit([this](const auto& tell) { Tell(tell, outcome); }, done);
}

}  // namespace psring
