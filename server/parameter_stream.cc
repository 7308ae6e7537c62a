#include "server/parameter_stream.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/errors.h"
#include "common/grpc_message.h"
#include "common/grpc_status.h"
#include "common/partition.h"
#include "common/status_macros.h"
#include "common/wire_message.h"
#include "common/wire_protocol.h"

namespace psring {
namespace {

// For what a worker sends before it knows that an earlier answer has been sent.
constexpr int64_t kSpareRequests = 16;
// Behind all slots: of an answer about none.
constexpr int64_t kNoSlot = std::numeric_limits<int64_t>::max();

}  // namespace

ParameterStream::ParameterStream(const Options* options,
                                 grpc::ServerCompletionQueue* queue)
    : options_(*options),
      shard_(*options->shard),
      queue_(queue),
      max_outstanding_(2 * int64_t{shard_.slot_count()} + kSpareRequests),
      decoder_(options_.wire),
      stream_(&context_) {}

void ParameterStream::Await(Service* service, std::function<void(bool)> called) {
  auto* const done =
      new OneTimeEvent([self = shared_from_this()](bool) { self->OnDone(); });
  context_.AsyncNotifyWhenDone(done->tag());
  auto* const begun = new OneTimeEvent([done, called = std::move(called)](bool ok) {
    if (!ok) delete done;  // No call has begun: none is ever done.
    called(ok);
  });
  service->RequestExchange(&context_, &stream_, queue_, queue_, begun->tag());
}

absl::Status ParameterStream::TakeHello() {
  const auto found = context_.client_metadata().find(kHelloMetadata);
  if (found == context_.client_metadata().end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the call says no hello (metadata ", kHelloMetadata, ")"));
  }
  if (!hello_.ParseFromArray(found->second.data(),
                             static_cast<int>(found->second.size()))) {
    return absl::InvalidArgumentError(
        absl::StrCat("the hello (metadata ", kHelloMetadata, ") is malformed"));
  }
  if (hello_.protocol_version() != kWireProtocolVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("this server speaks version ", kWireProtocolVersion,
                     " of the protocol, the worker version ", hello_.protocol_version()));
  }
  if (hello_.job() != options_.job) {
    return absl::InvalidArgumentError(absl::StrCat("this server is of job \"",
                                                   options_.job, "\", the worker of \"",
                                                   hello_.job(), "\""));
  }
  if (hello_.rank() < 0 || hello_.rank() >= shard_.workers()) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", hello_.rank(),
                                                   " says hello to a server of ",
                                                   shard_.workers(), " workers"));
  }
  if (hello_.fingerprint() != options_.fingerprint) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "rank %d and this server have different configurations: the job's description "
        "has fingerprint %016x there and %016x here",
        hello_.rank(), hello_.fingerprint(), options_.fingerprint));
  }
  return absl::OkStatus();
}

bool ParameterStream::Serve() {
  MutexLock lock(&mutex_);
  ReadLocked();
  return !gone_;
}

void ParameterStream::End(const absl::Status& status) {
  std::vector<PullTicket> parked;
  {
    MutexLock lock(&mutex_);
    if (!ended_.ok()) return;
    ended_ = status;
    parked = ParkedLocked();
    FinishLocked();
  }
  Cancel(parked);
}

std::optional<ParameterStream::Time> ParameterStream::ExpirePulls(Time now) {
  std::vector<PullTicket> expired;
  std::optional<Time> next;
  {
    MutexLock lock(&mutex_);
    for (const auto& [key, pull] : pulls_) {
      if (pull.deadline > now) {
        next = pull.deadline;
        break;
      }
      expired.push_back(pull.ticket);
    }
  }
  Cancel(expired);
  return next;
}

void ParameterStream::OnRead(bool ok) {
  if (ok) {
    options_.ready(shared_from_this());
    return;
  }
  MutexLock lock(&mutex_);
  reading_ = false;
  all_read_ = true;
  FinishLocked();
}

void ParameterStream::TakeTurn() {
  bool ended = false;
  {
    MutexLock lock(&mutex_);
    ended = !ended_.ok();
  }
  const absl::Status status = ended ? absl::OkStatus() : Handle();
  {
    MutexLock lock(&mutex_);
    reading_ = false;
    if (status.ok()) ReadLocked();
    FinishLocked();
  }
  if (!status.ok()) End(status);
}

absl::Status ParameterStream::Handle() {
  ParameterRequest request;
  ASSIGN_OR_RETURN(ReceivedPayload payload, TakeMessage(&incoming_, &request));
  FloatPieces parameters;
  Contribution contribution;
  switch (request.operation()) {
    case ParameterRequest::INITIALIZE: {
      ASSIGN_OR_RETURN(parameters, FloatsOf(std::move(payload.pieces)));
      break;
    }
    case ParameterRequest::PUSH:
    case ParameterRequest::EXCHANGE: {
      const std::optional<Range> range = shard_.RangeOf(request.slot());
      if (!range) break;  // The shard refuses the slot, by name.
      absl::StatusOr<Contribution> decoded = decoder_.Decode(
          std::move(payload.pieces), std::move(payload.owner), range->count);
      if (!decoded.ok()) {
        return Annotate(decoded.status(),
                        absl::StrCat("rank ", rank(), "'s push to slot ", request.slot(),
                                     ", step ", request.step()));
      }
      contribution = *std::move(decoded);
      break;
    }
    default:
      break;
  }
  {
    MutexLock lock(&mutex_);
    ++outstanding_;
  }
  const Asked asked{.id = request.id(), .slot = request.slot()};
  switch (request.operation()) {
    case ParameterRequest::INITIALIZE:
      AnswerDone(asked, rank() == 0
                            ? shard_.Initialize(request.slot(), parameters)
                            : absl::InvalidArgumentError(absl::StrCat(
                                  "rank ", rank(), " initializes slot ", request.slot(),
                                  ", which is for worker 0 to do")));
      break;
    case ParameterRequest::PUSH:
      AnswerDone(asked, Push(request, std::move(contribution)));
      break;
    case ParameterRequest::PULL:
      Pull(request, request.step());
      break;
    case ParameterRequest::EXCHANGE:
      if (const absl::Status pushed = Push(request, std::move(contribution));
          pushed.ok()) {
        Pull(request, request.step() + 1);
      } else {
        AnswerDone(asked, pushed);
      }
      break;
    case ParameterRequest::LEAVE:
      AnswerDone(asked, shard_.Leave(rank()));
      break;
    case ParameterRequest::SNAPSHOT:
      AnswerSnapshot(
          asked, shard_.Snapshot(
                     {.rank = rank(), .step = request.step(), .slot = request.slot()}));
      break;
    default:
      AnswerDone(asked,
                 absl::InvalidArgumentError(absl::StrCat(
                     "request ", request.id(), " of rank ", rank(), " has operation ",
                     int{request.operation()}, ", which is none")));
  }
  return absl::OkStatus();
}

absl::Status ParameterStream::Push(const ParameterRequest& request,
                                   Contribution contribution) {
  return shard_.Push({.rank = rank(),
                      .step = request.step(),
                      .slot = request.slot(),
                      .version = request.version()},
                     std::move(contribution));
}

void ParameterStream::Pull(const ParameterRequest& request, int64_t step) {
  OpenPull* pull = nullptr;
  int64_t key = 0;
  {
    MutexLock lock(&mutex_);
    key = ++last_pull_;
    pull = &pulls_[key];
    *pull = {.stream = shared_from_this(),
             .key = key,
             .asked = {.id = request.id(), .slot = request.slot()},
             .bytes = shard_.ElementsOf(request.slot()) * int64_t{sizeof(float)},
             .ticket = {},
             .deadline = SteadyDeadline(options_.stall_timeout)};
    asked_bytes_ += pull->bytes;
  }
  const PullTicket ticket =
      shard_.Pull({.rank = rank(), .step = step, .slot = request.slot()},
                  [pull](const absl::StatusOr<PullAnswer>& answer) {
                    pull->stream->OnPulled(pull, answer);
                  });
  bool given_up = false;
  {
    MutexLock lock(&mutex_);
    const auto open = pulls_.find(key);
    if (open == pulls_.end()) return;  // Answered.
    open->second.ticket = ticket;
    given_up = gone_ || !ended_.ok();
  }
  if (given_up) shard_.CancelPull(ticket);
}

void ParameterStream::OnPulled(OpenPull* pull, const absl::StatusOr<PullAnswer>& pulled) {
  const std::shared_ptr<ParameterStream> self = std::move(pull->stream);
  const Asked asked = pull->asked;
  {
    MutexLock lock(&mutex_);
    asked_bytes_ -= pull->bytes;
    pulls_.erase(pull->key);
  }
  AnswerPull(asked, pulled);
}

void ParameterStream::AnswerDone(const Asked& asked, const absl::Status& status) {
  UnsentAnswer answer;
  answer.header.set_id(asked.id);
  if (!status.ok()) *answer.header.mutable_failure() = ToFailure(status);
  Answer(asked, std::move(answer));
}

void ParameterStream::AnswerPull(const Asked& asked,
                                 const absl::StatusOr<PullAnswer>& pulled) {
  if (!pulled.ok()) {
    AnswerDone(asked, pulled.status());
    return;
  }
  UnsentAnswer answer{.header = {},
                      .payload = std::as_bytes(pulled->parameters.values),
                      .owner = pulled->parameters.owner};
  answer.header.set_id(asked.id);
  answer.header.set_version(pulled->parameters.version);
  answer.header.set_step(pulled->step);
  answer.header.set_finished(pulled->finished);
  answer.header.set_parked_ns(absl::ToInt64Nanoseconds(pulled->parked));
  answer.header.set_released_by(pulled->released_by);
  answer.header.set_working_ns(absl::ToInt64Nanoseconds(pulled->working));
  Answer(asked, std::move(answer));
}

void ParameterStream::AnswerSnapshot(const Asked& asked,
                                     const absl::StatusOr<SlotSnapshot>& snapshot) {
  if (!snapshot.ok()) {
    AnswerDone(asked, snapshot.status());
    return;
  }
  UnsentAnswer answer{.header = {},
                      .payload = std::as_bytes(snapshot->parameters.values),
                      .owner = snapshot->parameters.owner};
  answer.header.set_id(asked.id);
  answer.header.set_version(snapshot->parameters.version);
  answer.header.set_time_ns(absl::ToInt64Nanoseconds(snapshot->time));
  Answer(asked, std::move(answer));
}

void ParameterStream::Answer(const Asked& asked, UnsentAnswer answer) {
  const std::optional<Range> range = shard_.RangeOf(asked.slot);
  std::optional<UnsentAnswer> next;
  {
    MutexLock lock(&mutex_);
    if (gone_ || !ended_.ok()) return;
    unsent_bytes_ += static_cast<int64_t>(answer.payload.size());
    answers_.Push(range ? range->begin : kNoSlot, std::move(answer));
    next = NextAnswerLocked();
  }
  Write(std::move(next));
}

void ParameterStream::Write(std::optional<UnsentAnswer> answer) {
  if (!answer.has_value()) return;
  stream_.Write(MakeMessage(answer->header, answer->payload, std::move(answer->owner)),
                written_.Begin());
}

void ParameterStream::OnWritten(bool ok) {
  std::optional<UnsentAnswer> next;
  {
    MutexLock lock(&mutex_);
    writing_ = false;
    unsent_bytes_ -= std::exchange(writing_bytes_, 0);
    --outstanding_;
    if (!ok) {
      gone_ = true;
      answers_.Clear();
    }
    next = NextAnswerLocked();
    ReadLocked();
    FinishLocked();
  }
  Write(std::move(next));
}

// The call is over, by our Finish or because the worker has gone.
void ParameterStream::OnDone() {
  std::vector<PullTicket> parked;
  {
    MutexLock lock(&mutex_);
    gone_ = true;
    answers_.Clear();
    parked = ParkedLocked();
  }
  Cancel(parked);
  options_.closed(this);
}

void ParameterStream::Cancel(const std::vector<PullTicket>& tickets) {
  for (const PullTicket& ticket : tickets) shard_.CancelPull(ticket);
}

std::optional<ParameterStream::UnsentAnswer> ParameterStream::NextAnswerLocked() {
  if (writing_ || finishing_ || gone_ || answers_.empty()) return std::nullopt;
  writing_ = true;
  UnsentAnswer next = answers_.Pop();
  writing_bytes_ = static_cast<int64_t>(next.payload.size());
  return next;
}

void ParameterStream::ReadLocked() {
  if (reading_ || finishing_ || gone_ || all_read_ || !ended_.ok()) return;
  if (outstanding_ >= max_outstanding_) return;
  if (asked_bytes_ + unsent_bytes_ >= 2 * shard_.bytes() && shard_.bytes() > 0) return;
  reading_ = true;
  stream_.Read(&incoming_, read_.Begin());
}

void ParameterStream::FinishLocked() {
  if (finishing_ || gone_ || writing_ || !answers_.empty()) return;
  if (ended_.ok() && !(all_read_ && outstanding_ == 0)) return;
  finishing_ = true;
  auto* const finished = new OneTimeEvent([self = shared_from_this()](bool) {});
  stream_.Finish(ToGrpc(ended_), finished->tag());
}

std::vector<PullTicket> ParameterStream::ParkedLocked() const {
  std::vector<PullTicket> tickets;
  for (const auto& [key, pull] : pulls_) tickets.push_back(pull.ticket);
  return tickets;
}

}  // namespace psring
