// The channel against servers that are not ours: a plain generated one, whose answers are
// scripted, and a bare socket that speaks just enough HTTP/2 to be sent to.
#include "worker/grpc_parameter_channel.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/errors.h"
#include "common/status_matchers.h"
#include "common/wire_protocol.h"
#include "glog/logging.h"
#include "gmock/gmock.h"
#include "grpc/grpc.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/parameter_server.grpc.pb.h"
#include "proto/parameter_server.pb.h"

namespace psring {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

using Stream = grpc::ServerReaderWriter<ParameterAnswer, ParameterRequest>;

Bytes BytesOf(std::span<const float> values) { return std::as_bytes(values); }

// A request's outcome.
template <typename T>
class Outcome {
 public:
  std::function<void(const T&)> callback() {
    return [this](const T& value) { promise_.set_value(value); };
  }
  T Get() { return promise_.get_future().get(); }

 private:
  std::promise<T> promise_;
};

Slot SlotOf(int64_t count) {
  return {.index = 7, .bucket = 0, .server = 0, .range = {.begin = 0, .count = count}};
}

std::unique_ptr<ParameterChannel> NewChannel(
    const std::string& address, absl::Duration stall_timeout = absl::Hours(1)) {
  return NewGrpcParameterChannel({.job = "job",
                                  .rank = 3,
                                  .incarnation = 11,
                                  .fingerprint = 12,
                                  .server = 4,
                                  .address = address,
                                  .stall_timeout = stall_timeout});
}

class ScriptedServer final : public ParameterService::Service {
 public:
  using Script = std::function<grpc::Status(grpc::ServerContext*, Stream*)>;

  explicit ScriptedServer(Script script) : script_(std::move(script)) {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    CHECK(server_ != nullptr);
    address_ = absl::StrCat("127.0.0.1:", port);
  }
  ~ScriptedServer() override { server_->Shutdown(std::chrono::system_clock::now()); }

  const std::string& address() const { return address_; }

  grpc::Status Exchange(grpc::ServerContext* context, Stream* stream) override {
    return script_(context, stream);
  }

 private:
  const Script script_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

class GrpcParameterChannelTest : public testing::Test {
 protected:
  // As in the server's test: without a last gRPC object there is no wait for its end.
  static void SetUpTestSuite() { grpc_init(); }

  absl::StatusOr<Pulled> Pull(ParameterChannel& channel, int64_t step,
                              std::vector<float>* parameters) {
    Outcome<absl::StatusOr<Pulled>> outcome;
    channel.Pull(SlotOf(parameters->size()), step, *parameters, outcome.callback());
    return outcome.Get();
  }
};

TEST_F(GrpcParameterChannelTest, APlainServerReadsEveryFieldAndByte) {
  const std::vector<float> gradient = {1.5f, -0.0f, 3};
  WorkerHello hello;
  std::vector<ParameterRequest> requests;
  ScriptedServer server([&](grpc::ServerContext* context, Stream* stream) {
    const auto found = context->client_metadata().find(kHelloMetadata);
    if (found != context->client_metadata().end()) {
      hello.ParseFromArray(found->second.data(), static_cast<int>(found->second.size()));
    }
    ParameterRequest request;
    while (stream->Read(&request)) {
      requests.push_back(request);
      ParameterAnswer answer;
      answer.set_id(request.id());
      if (request.operation() == ParameterRequest::PULL ||
          request.operation() == ParameterRequest::EXCHANGE) {
        answer.set_version(9);
        answer.set_step(request.step() + 1);
        answer.set_finished(true);
        answer.set_parked_ns(1500);
        answer.set_released_by(2);
        answer.set_payload(requests[0].payload());
      }
      if (request.operation() == ParameterRequest::SNAPSHOT) {
        answer.set_version(11);
        answer.set_time_ns(2500);
        answer.set_payload(requests[0].payload());
      }
      stream->Write(answer);
    }
    return grpc::Status::OK;
  });
  {
    const auto channel = NewChannel(server.address());
    Outcome<absl::Status> initialized;
    channel->Initialize(SlotOf(3), gradient, initialized.callback());
    ASSERT_OK(initialized.Get());
    const auto expect_answer = [&](const Pulled& pulled, int64_t step,
                                   const std::vector<float>& parameters) {
      EXPECT_EQ(pulled.version, 9);
      EXPECT_EQ(pulled.step, step);
      EXPECT_TRUE(pulled.finished);
      EXPECT_EQ(pulled.parked, absl::Nanoseconds(1500));
      EXPECT_EQ(pulled.released_by, 2);
      EXPECT_EQ(std::memcmp(parameters.data(), gradient.data(), 12), 0);
    };
    std::vector<float> exchanged_parameters(3);
    Outcome<absl::StatusOr<Pulled>> exchanged;
    channel->Exchange(SlotOf(3), 8, 6, BytesOf(gradient), exchanged_parameters,
                      exchanged.callback());
    ASSERT_OK_AND_ASSIGN(const Pulled next, exchanged.Get());
    expect_answer(next, 9, exchanged_parameters);
    std::vector<float> parameters(3);
    ASSERT_OK_AND_ASSIGN(const Pulled pulled, Pull(*channel, 9, &parameters));
    expect_answer(pulled, 10, parameters);
    Outcome<absl::Status> left;
    channel->Leave(left.callback());
    ASSERT_OK(left.Get());
    std::vector<float> kept(3);
    Outcome<absl::StatusOr<SnapshotInfo>> taken;
    channel->Snapshot(SlotOf(3), 5, kept, taken.callback());
    ASSERT_OK_AND_ASSIGN(const SnapshotInfo snapshot, taken.Get());
    EXPECT_EQ(snapshot.version, 11);
    EXPECT_EQ(snapshot.time, absl::Nanoseconds(2500));
    EXPECT_EQ(std::memcmp(kept.data(), gradient.data(), 12), 0);
  }
  EXPECT_EQ(hello.protocol_version(), kWireProtocolVersion);
  EXPECT_EQ(hello.job(), "job");
  EXPECT_EQ(hello.rank(), 3);
  EXPECT_EQ(hello.incarnation(), 11u);
  EXPECT_EQ(hello.fingerprint(), 12u);
  ASSERT_EQ(requests.size(), 5u);
  for (const int i : {0, 1, 2, 4}) EXPECT_EQ(requests[i].slot(), 7);
  EXPECT_EQ(requests[0].operation(), ParameterRequest::INITIALIZE);
  EXPECT_EQ(requests[1].operation(), ParameterRequest::EXCHANGE);
  EXPECT_EQ(requests[1].step(), 8);
  EXPECT_EQ(requests[1].version(), 6);
  ASSERT_EQ(requests[1].payload().size(), 12u);
  EXPECT_EQ(std::memcmp(requests[1].payload().data(), gradient.data(), 12), 0);
  EXPECT_EQ(requests[2].operation(), ParameterRequest::PULL);
  EXPECT_EQ(requests[2].step(), 9);
  EXPECT_TRUE(requests[2].payload().empty());
  EXPECT_EQ(requests[3].operation(), ParameterRequest::LEAVE);
  EXPECT_EQ(requests[4].operation(), ParameterRequest::SNAPSHOT);
  EXPECT_EQ(requests[4].step(), 5);
}

TEST_F(GrpcParameterChannelTest, AnswersThatMakeNoSenseEndTheChannel) {
  struct Case {
    std::function<void(ParameterAnswer*)> spoil;
    absl::StatusCode code;
    std::string error;
  };
  const std::vector<Case> cases = {
      {[](ParameterAnswer* answer) { answer->set_id(answer->id() + 1); },
       absl::StatusCode::kInternal, "it answers request 2, which is not in flight"},
      {[](ParameterAnswer* answer) { answer->set_payload("1234567"); },
       absl::StatusCode::kInvalidArgument, "7 bytes, which are no whole floats"},
  };
  for (const Case& c : cases) {
    ScriptedServer server([&](grpc::ServerContext*, Stream* stream) {
      ParameterRequest request;
      while (stream->Read(&request)) {
        ParameterAnswer answer;
        answer.set_id(request.id());
        c.spoil(&answer);
        stream->Write(answer);
      }
      return grpc::Status::OK;
    });
    const auto channel = NewChannel(server.address());
    std::vector<float> parameters(2, 9);
    const auto is_error = StatusIs(
        c.code, AllOf(HasSubstr(absl::StrCat("server 4 (", server.address(), ")")),
                      HasSubstr("the pull of slot 7 for step 1"), HasSubstr(c.error)));
    EXPECT_THAT(Pull(*channel, 1, &parameters), is_error);
    EXPECT_THAT(Pull(*channel, 1, &parameters), is_error);
    EXPECT_THAT(parameters, Each(9));
  }
}

TEST_F(GrpcParameterChannelTest, AnEndedStreamIsALostPeer) {
  ScriptedServer server([&](grpc::ServerContext*, Stream* stream) {
    ParameterRequest request;
    stream->Read(&request);
    return grpc::Status::OK;
  });
  const auto channel = NewChannel(server.address());
  std::vector<float> parameters(2);
  const absl::Status status = Pull(*channel, 1, &parameters).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                               HasSubstr("the server has ended the stream")));
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kPeerLost);
}

// What a caller that drives is answered is done in its own thread. Where the channel's
// thread has not yet gone to rest after the request before, it goes on instead.
TEST_F(GrpcParameterChannelTest, ACallerThatAwaitsItsRequestDrivesTheChannel) {
  ScriptedServer server([&](grpc::ServerContext*, Stream* stream) {
    ParameterRequest request;
    while (stream->Read(&request)) {
      ParameterAnswer answer;
      answer.set_id(request.id());
      answer.set_step(request.step());
      answer.set_payload(std::string(8, '\0'));
      stream->Write(answer);
    }
    return grpc::Status::OK;
  });
  const auto channel = NewChannel(server.address());
  std::vector<float> parameters(2);
  ASSERT_OK(Pull(*channel, 0, &parameters).status());
  bool driven = false;
  for (int step = 1; !driven && step <= 10000; ++step) {
    Outcome<std::thread::id> answered_in;
    std::atomic<bool> done = false;
    channel->Lend();
    channel->Pull(
        SlotOf(2), step, parameters,
        [&, set = answered_in.callback()](const absl::StatusOr<Pulled>& pulled) {
          EXPECT_OK(pulled.status());
          done = true;
          set(std::this_thread::get_id());
        });
    channel->Drive([&] { return done.load(); });
    driven = answered_in.Get() == std::this_thread::get_id();
  }
  EXPECT_TRUE(driven);
  // The thread is there for whoever does not drive.
  ASSERT_OK(Pull(*channel, 1, &parameters).status());
}

TEST_F(GrpcParameterChannelTest, WhateverEndsADrivenChannelEndsTheDrive) {
  ScriptedServer server([&](grpc::ServerContext*, Stream* stream) {
    ParameterRequest request;
    while (stream->Read(&request)) {
      if (request.step() == 9) return grpc::Status::OK;  // The others have no answer.
    }
    return grpc::Status::OK;
  });
  std::vector<float> parameters(2);
  const auto drive = [&](ParameterChannel& channel, int64_t step) {
    Outcome<absl::StatusOr<Pulled>> outcome;
    channel.Lend();
    channel.Pull(SlotOf(2), step, parameters, outcome.callback());
    channel.Drive([] { return false; });
    return outcome.Get().status();
  };
  const auto left = NewChannel(server.address());
  EXPECT_THAT(drive(*left, 9), StatusIs(absl::StatusCode::kUnavailable,
                                        HasSubstr("the server has ended the stream")));
  const auto stalled = NewChannel(server.address(), absl::Milliseconds(20));
  EXPECT_THAT(drive(*stalled, 1), StatusIs(absl::StatusCode::kUnavailable,
                                           HasSubstr("no answer within 20ms")));
  const auto aborted = NewChannel(server.address());
  std::thread other([&] { aborted->Abort(absl::AbortedError("enough")); });
  EXPECT_THAT(drive(*aborted, 1), StatusIs(absl::StatusCode::kAborted, "enough"));
  other.join();
}

TEST_F(GrpcParameterChannelTest, ALentChannelThatNobodyDrivesSendsAndEnds) {
  std::promise<void> both_came;
  ScriptedServer server([&](grpc::ServerContext*, Stream* stream) {
    ParameterRequest request;
    for (int requests = 0; stream->Read(&request);) {
      if (++requests == 2) both_came.set_value();
    }
    return grpc::Status::OK;
  });
  std::vector<float> first(2), second(2);
  Outcome<absl::StatusOr<Pulled>> of_first, of_second;
  auto channel = NewChannel(server.address());
  channel->Lend();
  channel->Pull(SlotOf(2), 1, first, of_first.callback());
  channel->Pull(SlotOf(2), 2, second, of_second.callback());
  EXPECT_EQ(both_came.get_future().wait_for(std::chrono::minutes(1)),
            std::future_status::ready)
      << "the second request has not been sent";
  channel.reset();
  const auto ended = StatusIs(absl::StatusCode::kCancelled, "the channel has ended");
  EXPECT_THAT(of_first.Get(), ended);
  EXPECT_THAT(of_second.Get(), ended);
}

TEST_F(GrpcParameterChannelTest, AStallNamesTheRequestToTheOthers) {
  ScriptedServer server([&](grpc::ServerContext*, Stream* stream) {
    ParameterRequest request;
    while (stream->Read(&request)) {
    }
    return grpc::Status::OK;
  });
  const auto channel = NewChannel(server.address(), absl::Milliseconds(20));
  std::vector<float> first(2), second(2);
  Outcome<absl::StatusOr<Pulled>> stalled, other;
  channel->Pull(SlotOf(2), 1, first, stalled.callback());
  channel->Pull(SlotOf(2), 2, second, other.callback());
  EXPECT_THAT(stalled.Get(),
              StatusIs(absl::StatusCode::kUnavailable,
                       absl::StrCat("server 4 (", server.address(),
                                    "): the pull of slot 7 for step 1: no answer within "
                                    "20ms")));
  EXPECT_THAT(other.Get(),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("the pull of slot 7 for step 2: the pull of slot 7 for "
                                 "step 1 had no answer within 20ms")));
}

// A server that lets everything be sent to it (its HTTP/2 windows are as large as can be)
// and reads none of it: what a frozen process looks like to the network.
class FrozenServer {
 public:
  FrozenServer() : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    // Small, so that a gradient does not fit into the kernel.
    const int bytes = 64 << 10;
    PCHECK(setsockopt(listener_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)) == 0);
    sockaddr_in address = {.sin_family = AF_INET,
                           .sin_port = 0,
                           .sin_addr = {htonl(INADDR_LOOPBACK)},
                           .sin_zero = {}};
    socklen_t size = sizeof(address);
    PCHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0);
    PCHECK(listen(listener_, 1) == 0);
    PCHECK(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  }
  ~FrozenServer() {
    Close();
    close(listener_);
  }

  const std::string& address() const { return address_; }

  void Accept() {
    socket_ = accept(listener_, nullptr, nullptr);
    PCHECK(socket_ >= 0);
    // SETTINGS with INITIAL_WINDOW_SIZE and MAX_FRAME_SIZE; WINDOW_UPDATE.
    const std::string frames(
        "\0\0\x0c\x04\0\0\0\0\0"
        "\0\x04\x7f\xff\xff\xff"
        "\0\x05\0\xff\xff\xff"
        "\0\0\x04\x08\0\0\0\0\0"
        "\x7f\xff\0\0",
        9 + 12 + 9 + 4);
    PCHECK(send(socket_, frames.data(), frames.size(), 0) ==
           static_cast<ssize_t>(frames.size()));
  }
  // Returns when the first part of a gradient is there.
  void AwaitBytes() const {
    std::string some(16 << 10, 0);
    PCHECK(recv(socket_, some.data(), some.size(), MSG_PEEK | MSG_WAITALL) > 0);
  }
  // All that has been sent, until the other end closes.
  std::string Drain() const {
    std::string all, some(1 << 20, 0);
    ssize_t n = 0;
    while ((n = recv(socket_, some.data(), some.size(), 0)) > 0) all.append(some, 0, n);
    return all;
  }
  void Close() {
    if (socket_ >= 0) close(std::exchange(socket_, -1));
  }

 private:
  const int listener_;
  int socket_ = -1;
  std::string address_;
};

enum class EndBy { kDeadline, kAbort, kDestructor, kLostServer };

class GradientReleaseTest : public testing::TestWithParam<EndBy> {
 protected:
  static void SetUpTestSuite() { grpc_init(); }
};

// Once an exchange is done its gradient is the caller's again: nothing of what is written
// to it then may reach the network, although most of it was still to be sent.
TEST_P(GradientReleaseTest, AnExchangeThatHasFailedReadsItsGradientNoMore) {
  constexpr int64_t kCount = 8 << 20;
  constexpr float kBefore = 0x1.010101p+0f, kAfter = 0x1.fefefep+5f;
  FrozenServer server;
  auto channel = NewChannel(server.address(), GetParam() == EndBy::kDeadline
                                                  ? absl::Milliseconds(200)
                                                  : absl::Hours(1));
  std::vector<float> gradient(kCount, kBefore), parameters(kCount);
  Outcome<absl::StatusOr<Pulled>> outcome;
  channel->Exchange(SlotOf(kCount), 0, 0, BytesOf(gradient), parameters,
                    outcome.callback());
  server.Accept();
  if (GetParam() != EndBy::kDeadline) server.AwaitBytes();
  if (GetParam() == EndBy::kAbort) channel->Abort(absl::AbortedError("end"));
  if (GetParam() == EndBy::kDestructor) channel.reset();
  if (GetParam() == EndBy::kLostServer) server.Close();
  const absl::Status status = outcome.Get().status();
  std::fill(gradient.begin(), gradient.end(), kAfter);
  switch (GetParam()) {
    case EndBy::kDeadline:
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                                   HasSubstr("no answer within 200ms")));
      break;
    case EndBy::kAbort:
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kAborted, "end"));
      break;
    case EndBy::kDestructor:
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kCancelled, testing::_));
      break;
    case EndBy::kLostServer:
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable,
                                   HasSubstr("the exchange of slot 7, step 0")));
      return;
  }
  const std::string sent = server.Drain();
  EXPECT_LT(sent.size(), kCount * sizeof(float));
  EXPECT_EQ(sent.find(std::string(reinterpret_cast<const char*>(&kAfter), sizeof(float))),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, GradientReleaseTest,
                         testing::Values(EndBy::kDeadline, EndBy::kAbort,
                                         EndBy::kDestructor, EndBy::kLostServer),
                         [](const auto& info) {
                           switch (info.param) {
                             case EndBy::kDeadline:
                               return "Deadline";
                             case EndBy::kAbort:
                               return "Abort";
                             case EndBy::kDestructor:
                               return "Destructor";
                             case EndBy::kLostServer:
                               return "LostServer";
                           }
                           return "";
                         });

TEST_F(GrpcParameterChannelTest, APayloadThatNoMessageCanHoldIsRefusedAtOnce) {
  const auto channel = NewChannel("127.0.0.1:1");
  std::vector<float> one(1);
  Outcome<absl::StatusOr<Pulled>> outcome;
  // The memory is not there, and must not be looked at.
  const std::span<const float> large(one.data(), (size_t{256} << 20) / 4 + 1);
  channel->Exchange(SlotOf(static_cast<int64_t>(large.size())), 0, 0, BytesOf(large), one,
                    outcome.callback());
  EXPECT_THAT(outcome.Get(), StatusIs(absl::StatusCode::kInvalidArgument,
                                      HasSubstr("do not fit into one message")));
}

}  // namespace
}  // namespace psring
