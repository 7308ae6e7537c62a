#include "ring/grpc_lane.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/grpc_status.h"
#include "glog/logging.h"

namespace psring {
namespace {

constexpr char kMethod[] = "/psring.RankService/Link";
constexpr char kHandshakeMetadata[] = "psring-handshake-bin";
// Messages that wait for their user; the rest stays within the network's windows.
constexpr size_t kMostReceived = 2;

std::string BytesOf(const Handshake& handshake) {
  return std::string(reinterpret_cast<const char*>(&handshake), sizeof(handshake));
}

template <typename Metadata>
std::optional<Handshake> HandshakeIn(const Metadata& metadata) {
  const auto found = metadata.find(kHandshakeMetadata);
  Handshake handshake;
  if (found == metadata.end() || found->second.size() != sizeof(handshake)) {
    return std::nullopt;
  }
  std::memcpy(&handshake, found->second.data(), sizeof(handshake));
  return handshake;
}

}  // namespace

void GrpcLane::Call(std::shared_ptr<grpc::Channel> channel, const Handshake& handshake) {
  client_context_ = std::make_unique<grpc::ClientContext>();
  client_context_->set_wait_for_ready(true);
  client_context_->AddMetadata(kHandshakeMetadata, BytesOf(handshake));
  client_ = grpc::GenericStub(std::move(channel))
                .PrepareCall(client_context_.get(), kMethod, queue_);
  client_->StartCall(Then(&GrpcLane::OnStarted));
}

void GrpcLane::OnStarted(bool ok) {
  if (ok) {
    client_->ReadInitialMetadata(Then(&GrpcLane::OnAnswered));
    return;
  }
  MutexLock lock(&monitor_->mutex);
  ended_ = true;
  EndLocked();
}

void GrpcLane::Await(grpc::AsyncGenericService* service,
                     grpc::ServerCompletionQueue* queue, Event called) {
  server_context_ = std::make_unique<grpc::GenericServerContext>();
  server_ = std::make_unique<Server>(server_context_.get());
  MutexLock lock(&monitor_->mutex);
  if (monitor_->closing) return;
  service->RequestCall(server_context_.get(), server_.get(), queue, queue,
                       new Event([self = shared_from_this(),
                                  called = std::move(called)](bool ok) { called(ok); }));
}

std::optional<Handshake> GrpcLane::TheirHandshake() const {
  return HandshakeIn(server_context_->client_metadata());
}

void GrpcLane::Accept(const Handshake& handshake) {
  server_context_->AddInitialMetadata(kHandshakeMetadata, BytesOf(handshake));
  MutexLock lock(&monitor_->mutex);
  if (monitor_->closing) return;
  server_->SendInitialMetadata(Then(&GrpcLane::OnAnswered));
}

void GrpcLane::Refuse(const absl::Status& reason) {
  MutexLock lock(&monitor_->mutex);
  if (monitor_->closing) return;
  ended_ = finishing_ = true;
  server_->Finish(ToGrpc(reason), Then(&GrpcLane::OnFinished));
}

// The opening metadata has been sent, or has come.
void GrpcLane::OnAnswered(bool ok) {
  MutexLock lock(&monitor_->mutex);
  if (client_ != nullptr && ok) {
    answer_ = HandshakeIn(client_context_->GetServerInitialMetadata());
    ok = answer_.has_value();
  }
  open_ = ok;
  ended_ = !ok;
  ReadLocked();
  EndLocked();
  monitor_->changed.NotifyAll();
}

void GrpcLane::OnRead(bool ok) {
  MutexLock lock(&monitor_->mutex);
  reading_ = false;
  if (ok) {
    received_.emplace_back().Swap(&incoming_);
    if (leaving_) received_.clear();
    ReadLocked();
  } else {
    ended_ = true;
  }
  EndLocked();
  monitor_->changed.NotifyAll();
}

void GrpcLane::ReadLocked() {
  if (monitor_->closing || !open_ || reading_ || ended_ ||
      received_.size() >= kMostReceived)
    return;
  reading_ = true;
  Event* const read = Then(&GrpcLane::OnRead);
  client_ != nullptr ? client_->Read(&incoming_, read) : server_->Read(&incoming_, read);
}

void GrpcLane::Send(grpc::ByteBuffer message) {
  std::optional<grpc::ByteBuffer> next;
  {
    MutexLock lock(&monitor_->mutex);
    if (leaving_) return;
    unsent_.push_back(std::move(message));
    next = NextUnsentLocked();
  }
  Write(next);
}

std::optional<grpc::ByteBuffer> GrpcLane::NextUnsentLocked() {
  if (monitor_->closing || !open_ || writing_ || finishing_ || unsent_.empty()) {
    return std::nullopt;
  }
  writing_ = true;
  grpc::ByteBuffer next;
  next.Swap(&unsent_.front());
  unsent_.pop_front();
  return next;
}

void GrpcLane::Write(const std::optional<grpc::ByteBuffer>& message) {
  if (!message.has_value()) return;
  Event* const written = Then(&GrpcLane::OnWritten);
  client_ != nullptr ? client_->Write(*message, written)
                     : server_->Write(*message, written);
}

void GrpcLane::OnWritten(bool ok) {
  std::optional<grpc::ByteBuffer> next;
  {
    MutexLock lock(&monitor_->mutex);
    writing_ = false;
    if (!ok) unsent_.clear();
    next = NextUnsentLocked();
    EndLocked();
    monitor_->changed.NotifyAll();
  }
  Write(next);
}

GrpcLane::Received GrpcLane::Receive(std::span<std::byte> buffer) {
  if (current_.empty()) {
    grpc::ByteBuffer message;
    {
      MutexLock lock(&monitor_->mutex);
      if (received_.empty()) return {};
      message.Swap(&received_.front());
      received_.pop_front();
      ReadLocked();
    }
    CHECK(message.Dump(&current_).ok()) << "gRPC cannot read what it has received";
    std::erase_if(current_, [](const grpc::Slice& slice) { return slice.size() == 0; });
    std::reverse(current_.begin(), current_.end());
    offset_ = 0;
  }
  size_t bytes = 0;
  while (bytes < buffer.size() && !current_.empty()) {
    const grpc::Slice& slice = current_.back();
    const size_t part = std::min(buffer.size() - bytes, slice.size() - offset_);
    std::memcpy(buffer.data() + bytes, slice.begin() + offset_, part);
    bytes += part;
    offset_ += part;
    if (offset_ == slice.size()) {
      current_.pop_back();
      offset_ = 0;
    }
  }
  return {.bytes = bytes, .message_done = current_.empty()};
}

void GrpcLane::Leave() {
  MutexLock lock(&monitor_->mutex);
  leaving_ = true;
  received_.clear();
  ReadLocked();
  EndLocked();
}

void GrpcLane::Cancel() {
  if (client_context_ != nullptr) client_context_->TryCancel();
  if (server_context_ != nullptr) server_context_->TryCancel();
}

void GrpcLane::OnHalfClosed(bool) {
  MutexLock lock(&monitor_->mutex);
  half_closing_ = false;
  half_closed_ = true;
  EndLocked();
}

// A caller closes its stream, hears the other's out, and then takes the status. A
// listener closes its stream with the status, when it leaves or the caller has.
void GrpcLane::EndLocked() {
  if (monitor_->closing || finishing_ || writing_ ||
      (open_ && !unsent_.empty() && !ended_))
    return;
  if (server_ != nullptr) {
    if (!leaving_ && !ended_) return;
    if (!open_ && !ended_) return;  // Its opening is still on the way.
    finishing_ = true;
    server_->Finish(grpc::Status::OK, Then(&GrpcLane::OnFinished));
    return;
  }
  if (open_ && leaving_ && !ended_ && !half_closing_ && !half_closed_) {
    half_closing_ = true;
    client_->WritesDone(Then(&GrpcLane::OnHalfClosed));
  }
  if (!ended_ || reading_ || half_closing_) return;
  finishing_ = true;
  client_->Finish(&status_, Then(&GrpcLane::OnFinished));
}

void GrpcLane::OnFinished(bool) {
  MutexLock lock(&monitor_->mutex);
  over_ = true;
  monitor_->changed.NotifyAll();
}

}  // namespace psring
