#include "server/parameter_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/errors.h"
#include "common/grpc_message.h"
#include "common/grpc_status.h"
#include "common/status_macros.h"
#include "common/wire_protocol.h"

namespace psring {
namespace {

// For what a worker sends before it knows that an earlier answer has been sent.
constexpr int64_t kSpareRequests = 16;

}  // namespace

ParameterStream::ParameterStream(const Options* options,
                                 grpc::ServerCompletionQueue* queue)
    : options_(*options),
      shard_(*options->shard),
      queue_(queue),
      max_outstanding_(2 * int64_t{shard_.slot_count()} + kSpareRequests),
      stream_(&context_) {}

void ParameterStream::Await(Service* service, QueueEvent called) {
  auto* const done =
      new QueueEvent([self = shared_from_this()](bool) { self->OnDone(); });
  context_.AsyncNotifyWhenDone(done);
  service->RequestExchange(&context_, &stream_, queue_, queue_,
                           new QueueEvent([done, called = std::move(called)](bool ok) {
                             if (!ok)
                               delete done;  // No call has begun: none is ever done.
                             called(ok);
                           }));
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

void ParameterStream::Serve() {
  MutexLock lock(&mutex_);
  ReadLocked();
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
  bool ended = false;
  {
    MutexLock lock(&mutex_);
    ended = !ended_.ok();
  }
  absl::Status status;
  if (ok && !ended) status = Handle();
  {
    MutexLock lock(&mutex_);
    reading_ = false;
    if (!ok) all_read_ = true;
    if (status.ok()) ReadLocked();
    FinishLocked();
  }
  if (!status.ok()) End(status);
}

absl::Status ParameterStream::Handle() {
  ParameterRequest request;
  ASSIGN_OR_RETURN(ReceivedFloats payload, TakeMessage(&incoming_, &request));
  {
    MutexLock lock(&mutex_);
    ++outstanding_;
  }
  switch (request.operation()) {
    case ParameterRequest::INITIALIZE:
      AnswerDone(request.id(),
                 rank() == 0 ? shard_.Initialize(request.slot(), payload.floats)
                             : absl::InvalidArgumentError(absl::StrCat(
                                   "rank ", rank(), " initializes slot ", request.slot(),
                                   ", which is for worker 0 to do")));
      break;
    case ParameterRequest::PUSH:
      AnswerDone(request.id(), Push(request, std::move(payload)));
      break;
    case ParameterRequest::PULL:
      Pull(request, request.step());
      break;
    case ParameterRequest::EXCHANGE:
      if (const absl::Status pushed = Push(request, std::move(payload)); pushed.ok()) {
        Pull(request, request.step() + 1);
      } else {
        AnswerDone(request.id(), pushed);
      }
      break;
    case ParameterRequest::LEAVE:
      AnswerDone(request.id(), shard_.Leave(rank()));
      break;
    case ParameterRequest::SNAPSHOT:
      AnswerSnapshot(request.id(), shard_.Snapshot(request.slot(), request.step()));
      break;
    default:
      AnswerDone(request.id(),
                 absl::InvalidArgumentError(absl::StrCat(
                     "request ", request.id(), " of rank ", rank(), " has operation ",
                     int{request.operation()}, ", which is none")));
  }
  return absl::OkStatus();
}

absl::Status ParameterStream::Push(const ParameterRequest& request,
                                   ReceivedFloats payload) {
  return shard_.Push(
      {.rank = rank(),
       .step = request.step(),
       .slot = request.slot(),
       .version = request.version()},
      {.gradient = std::move(payload.floats), .owner = std::move(payload.owner)});
}

void ParameterStream::Pull(const ParameterRequest& request, int64_t step) {
  int64_t key = 0;
  {
    MutexLock lock(&mutex_);
    key = ++last_pull_;
    pulls_[key] = {.ticket = {}, .deadline = SteadyDeadline(options_.stall_timeout)};
  }
  const PullTicket ticket =
      shard_.Pull({.rank = rank(), .step = step, .slot = request.slot()},
                  [self = shared_from_this(), key,
                   id = request.id()](const absl::StatusOr<PullAnswer>& answer) {
                    {
                      MutexLock lock(&self->mutex_);
                      self->pulls_.erase(key);
                    }
                    self->AnswerPull(id, answer);
                  });
  bool given_up = false;
  {
    MutexLock lock(&mutex_);
    const auto pull = pulls_.find(key);
    if (pull == pulls_.end()) return;  // Answered.
    pull->second.ticket = ticket;
    given_up = gone_ || !ended_.ok();
  }
  if (given_up) shard_.CancelPull(ticket);
}

void ParameterStream::AnswerDone(uint64_t id, const absl::Status& status) {
  ParameterAnswer answer;
  answer.set_id(id);
  if (!status.ok()) *answer.mutable_failure() = ToFailure(status);
  Answer(MakeMessage(answer, /*payload=*/{}, /*owner=*/nullptr));
}

void ParameterStream::AnswerPull(uint64_t id, const absl::StatusOr<PullAnswer>& pulled) {
  if (!pulled.ok()) {
    AnswerDone(id, pulled.status());
    return;
  }
  ParameterAnswer answer;
  answer.set_id(id);
  answer.set_version(pulled->parameters.version);
  answer.set_step(pulled->step);
  answer.set_finished(pulled->finished);
  answer.set_parked_ns(absl::ToInt64Nanoseconds(pulled->parked));
  answer.set_released_by(pulled->released_by);
  Answer(MakeMessage(answer, pulled->parameters.values, pulled->parameters.owner));
}

void ParameterStream::AnswerSnapshot(uint64_t id,
                                     const absl::StatusOr<SlotSnapshot>& snapshot) {
  if (!snapshot.ok()) {
    AnswerDone(id, snapshot.status());
    return;
  }
  ParameterAnswer answer;
  answer.set_id(id);
  answer.set_version(snapshot->parameters.version);
  answer.set_time_ns(absl::ToInt64Nanoseconds(snapshot->time));
  Answer(MakeMessage(answer, snapshot->parameters.values, snapshot->parameters.owner));
}

void ParameterStream::Answer(grpc::ByteBuffer message) {
  std::optional<grpc::ByteBuffer> next;
  {
    MutexLock lock(&mutex_);
    if (gone_ || !ended_.ok()) return;
    answers_.push_back(std::move(message));
    next = NextAnswerLocked();
  }
  Write(next);
}

void ParameterStream::Write(const std::optional<grpc::ByteBuffer>& message) {
  if (!message.has_value()) return;
  stream_.Write(*message, new QueueEvent([self = shared_from_this()](bool ok) {
    self->OnWritten(ok);
  }));
}

void ParameterStream::OnWritten(bool ok) {
  std::optional<grpc::ByteBuffer> next;
  {
    MutexLock lock(&mutex_);
    writing_ = false;
    --outstanding_;
    if (!ok) {
      gone_ = true;
      answers_.clear();
    }
    next = NextAnswerLocked();
    ReadLocked();
    FinishLocked();
  }
  Write(next);
}

// The call is over, by our Finish or because the worker has gone.
void ParameterStream::OnDone() {
  std::vector<PullTicket> parked;
  {
    MutexLock lock(&mutex_);
    gone_ = true;
    answers_.clear();
    parked = ParkedLocked();
  }
  Cancel(parked);
  options_.closed(this);
}

void ParameterStream::Cancel(const std::vector<PullTicket>& tickets) {
  for (const PullTicket& ticket : tickets) shard_.CancelPull(ticket);
}

std::optional<grpc::ByteBuffer> ParameterStream::NextAnswerLocked() {
  if (writing_ || finishing_ || gone_ || answers_.empty()) return std::nullopt;
  writing_ = true;
  grpc::ByteBuffer next;
  next.Swap(&answers_.front());
  answers_.pop_front();
  return next;
}

void ParameterStream::ReadLocked() {
  if (reading_ || finishing_ || gone_ || all_read_ || !ended_.ok()) return;
  if (outstanding_ >= max_outstanding_) return;
  reading_ = true;
  stream_.Read(&incoming_, new QueueEvent([self = shared_from_this()](bool ok) {
    self->OnRead(ok);
  }));
}

void ParameterStream::FinishLocked() {
  if (finishing_ || gone_ || writing_ || !answers_.empty()) return;
  if (ended_.ok() && !(all_read_ && outstanding_ == 0)) return;
  finishing_ = true;
  stream_.Finish(ToGrpc(ended_), new QueueEvent([self = shared_from_this()](bool) {}));
}

std::vector<PullTicket> ParameterStream::ParkedLocked() const {
  std::vector<PullTicket> tickets;
  for (const auto& [key, pull] : pulls_) tickets.push_back(pull.ticket);
  return tickets;
}

}  // namespace psring
