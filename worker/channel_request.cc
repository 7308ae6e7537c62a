#include "worker/channel_request.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/errors.h"

namespace psring {
namespace {

using AnswerOr = absl::StatusOr<ParameterAnswer>;

std::shared_ptr<ChannelRequest> Make(ParameterRequest::Operation operation,
                                     std::string what) {
  auto request = std::make_shared<ChannelRequest>();
  request->what = std::move(what);
  request->header.set_operation(operation);
  return request;
}

std::shared_ptr<ChannelRequest> Make(ParameterRequest::Operation operation,
                                     const Slot& slot, int64_t step, std::string what) {
  auto request = Make(operation, std::move(what));
  request->header.set_slot(slot.index);
  request->header.set_step(step);
  return request;
}

auto WithoutAnswer(ParameterChannel::Done done) {
  return [done = std::move(done)](const AnswerOr& outcome) { done(outcome.status()); };
}

Pulled PulledOf(const ParameterAnswer& answer) {
  return {.version = answer.version(),
          .step = answer.step(),
          .finished = answer.finished(),
          .parked = absl::Nanoseconds(answer.parked_ns()),
          .released_by = answer.released_by()};
}

auto WithParameters(ParameterChannel::PullDone done) {
  return [done = std::move(done)](const AnswerOr& outcome) {
    if (outcome.ok()) {
      done(PulledOf(*outcome));
    } else {
      done(outcome.status());
    }
  };
}

SnapshotInfo SnapshotOf(const ParameterAnswer& answer) {
  return {.version = answer.version(), .time = absl::Nanoseconds(answer.time_ns())};
}

}  // namespace

std::shared_ptr<ChannelRequest> ChannelRequest::Initialize(
    const Slot& slot, std::span<const float> parameters, ParameterChannel::Done done) {
  auto request = Make(ParameterRequest::INITIALIZE, slot, /*step=*/0,
                      absl::StrCat("the initialization of slot ", slot.index));
  request->payload = parameters;
  request->done = WithoutAnswer(std::move(done));
  return request;
}

std::shared_ptr<ChannelRequest> ChannelRequest::Pull(const Slot& slot, int64_t step,
                                                     std::span<float> parameters,
                                                     ParameterChannel::PullDone done) {
  auto request = Make(ParameterRequest::PULL, slot, step,
                      absl::StrCat("the pull of slot ", slot.index, " for step ", step));
  request->parameters = parameters;
  request->done = WithParameters(std::move(done));
  return request;
}

std::shared_ptr<ChannelRequest> ChannelRequest::Exchange(
    const Slot& slot, int64_t step, int64_t version, std::span<const float> gradient,
    std::span<float> parameters, ParameterChannel::PullDone done) {
  auto request = Make(ParameterRequest::EXCHANGE, slot, step,
                      absl::StrCat("the exchange of slot ", slot.index, ", step ", step));
  request->header.set_version(version);
  request->payload = gradient;
  request->parameters = parameters;
  request->done = WithParameters(std::move(done));
  return request;
}

std::shared_ptr<ChannelRequest> ChannelRequest::Snapshot(
    const Slot& slot, int64_t step, std::span<float> parameters,
    ParameterChannel::SnapshotDone done) {
  auto request =
      Make(ParameterRequest::SNAPSHOT, slot, step,
           absl::StrCat("the snapshot of slot ", slot.index, " after step ", step));
  request->parameters = parameters;
  request->done = [done = std::move(done)](const AnswerOr& outcome) {
    if (outcome.ok()) {
      done(SnapshotOf(*outcome));
    } else {
      done(outcome.status());
    }
  };
  return request;
}

std::shared_ptr<ChannelRequest> ChannelRequest::Leave(ParameterChannel::Done done) {
  auto request = Make(ParameterRequest::LEAVE, "leaving");
  request->done = WithoutAnswer(std::move(done));
  return request;
}

void ChannelRequest::TakeAnswer(ParameterAnswer answer, const FloatPieces& floats,
                                const std::string& server) {
  const std::string context = absl::StrCat(server, ": ", what);
  if (answer.has_failure()) {
    outcome = Annotate(FromFailure(answer.failure()), context);
  } else if (floats.count() != static_cast<int64_t>(parameters.size())) {
    outcome = absl::InternalError(
        absl::StrCat(context, ": the answer has ", floats.count() * sizeof(float),
                     " bytes, the slot has ", parameters.size_bytes(), " here"));
  } else {
    floats.CopyTo(parameters);
    outcome = std::move(answer);
  }
}

}  // namespace psring
