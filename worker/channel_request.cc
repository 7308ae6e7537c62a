#include "worker/channel_request.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/errors.h"

namespace psring {
namespace {

std::shared_ptr<ChannelRequest> Make(ParameterRequest::Operation operation,
                                     const Slot& slot, int64_t step, std::string what) {
  auto request = std::make_shared<ChannelRequest>();
  request->what = std::move(what);
  request->header.set_operation(operation);
  request->header.set_slot(slot.index);
  request->header.set_step(step);
  return request;
}

ParameterChannel::PullDone WithoutVersion(ParameterChannel::Done done) {
  return [done = std::move(done)](const absl::StatusOr<int64_t>& outcome) {
    done(outcome.status());
  };
}

}  // namespace

std::shared_ptr<ChannelRequest> ChannelRequest::Initialize(
    const Slot& slot, std::span<const float> parameters, ParameterChannel::Done done) {
  auto request = Make(ParameterRequest::INITIALIZE, slot, /*step=*/0,
                      absl::StrCat("the initialization of slot ", slot.index));
  request->payload = parameters;
  request->done = WithoutVersion(std::move(done));
  return request;
}

std::shared_ptr<ChannelRequest> ChannelRequest::Push(const Slot& slot, int64_t step,
                                                     std::span<const float> gradient,
                                                     ParameterChannel::Done done) {
  auto request = Make(ParameterRequest::PUSH, slot, step,
                      absl::StrCat("the push of slot ", slot.index, ", step ", step));
  request->payload = gradient;
  request->done = WithoutVersion(std::move(done));
  return request;
}

std::shared_ptr<ChannelRequest> ChannelRequest::Pull(const Slot& slot, int64_t step,
                                                     std::span<float> parameters,
                                                     ParameterChannel::PullDone done) {
  auto request = Make(ParameterRequest::PULL, slot, step,
                      absl::StrCat("the pull of slot ", slot.index, " for step ", step));
  request->parameters = parameters;
  request->done = std::move(done);
  return request;
}

void ChannelRequest::TakeAnswer(const ParameterAnswer& answer, const FloatPieces& floats,
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
    outcome = answer.version();
  }
}

}  // namespace psring
