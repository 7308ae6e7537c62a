#include "server/turn_queue.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <numeric>
#include <optional>
#include <vector>

#include "gtest/gtest.h"

namespace psring {
namespace {

using Action = TurnQueue<int>::Action;

// A server of one thread, and gRPC as it is: an event that is in the queue is returned
// without a look at the sockets, and a look reads one socket, of those that have
// something in turn.
class Server {
 public:
  // By stream: how many messages are in its socket, and how many of these come into
  // memory with one read of it.
  Server(std::vector<int64_t> in_socket, int64_t at_once)
      : in_socket_(std::move(in_socket)),
        in_memory_(in_socket_.size()),
        served_(in_socket_.size()),
        at_once_(at_once) {
    for (size_t stream = 0; stream < in_socket_.size(); ++stream) turns_.Open();
  }

  // Does one thing. Returns whose message it has worked on, if it has.
  std::optional<int> Step() {
    const Action action = turns_.Next(looked_);
    if (action == Action::kServe) {
      looked_ = false;
      const int stream = turns_.Take();
      ++served_[stream];
      Read(stream);
      return stream;
    }
    const bool found = TakeEvent();
    looked_ = action == Action::kLook && !found;
    return std::nullopt;
  }

  const std::vector<int64_t>& served() const { return served_; }

 private:
  // The stream asks for its next message.
  void Read(int stream) {
    if (in_memory_[stream] == 0) return;  // Comes with its socket.
    --in_memory_[stream];
    events_.push_back(stream);
  }

  bool TakeEvent() {
    if (events_.empty()) LookAtASocket();
    if (events_.empty()) return false;
    turns_.Add(events_.front());
    events_.pop_front();
    return true;
  }

  void LookAtASocket() {
    const int streams = static_cast<int>(in_socket_.size());
    for (int i = 0; i < streams; ++i) {
      const int stream = next_socket_++ % streams;
      if (in_socket_[stream] == 0) continue;
      const int64_t read = std::min(at_once_, in_socket_[stream]);
      in_socket_[stream] -= read;
      in_memory_[stream] += read;
      if (in_memory_[stream] == read) Read(stream);  // It was waiting for it.
      return;
    }
  }

  TurnQueue<int> turns_;
  bool looked_ = false;
  std::deque<int> events_;
  std::vector<int64_t> in_socket_;
  std::vector<int64_t> in_memory_;
  std::vector<int64_t> served_;
  const int64_t at_once_;
  int next_socket_ = 0;
};

TEST(TurnQueueTest, SixtyFourStreamsGetTheSameShareOfTheService) {
  constexpr int kStreams = 64;
  constexpr int64_t kMessages = 100;
  for (const int64_t at_once : {1, 7, 100}) {
    Server server(std::vector<int64_t>(kStreams, kMessages), at_once);
    while (*std::max_element(server.served().begin(), server.served().end()) <
           kMessages / 2) {
      server.Step();
    }
    const std::vector<int64_t>& served = server.served();
    const double mean =
        static_cast<double>(std::accumulate(served.begin(), served.end(), int64_t{0})) /
        kStreams;
    for (int stream = 0; stream < kStreams; ++stream) {
      EXPECT_GE(static_cast<double>(served[stream]), 0.9 * mean)
          << "stream " << stream << ", " << at_once << " messages at once";
      EXPECT_LE(static_cast<double>(served[stream]), 1.1 * mean)
          << "stream " << stream << ", " << at_once << " messages at once";
    }
  }
}

TEST(TurnQueueTest, AllMessagesAreServed) {
  Server server({5, 0, 3, 9}, /*at_once=*/2);
  int64_t served = 0;
  for (int i = 0; i < 200; ++i) served += server.Step().has_value() ? 1 : 0;
  EXPECT_EQ(served, 17);
  EXPECT_EQ(server.served(), (std::vector<int64_t>{5, 0, 3, 9}));
}

TEST(TurnQueueTest, AloneAStreamIsServedAtOnce) {
  TurnQueue<int> turns;
  turns.Open();
  EXPECT_EQ(turns.Next(/*looked=*/false), Action::kAwait);
  turns.Add(1);
  EXPECT_EQ(turns.Next(/*looked=*/false), Action::kServe);
  turns.Open();
  EXPECT_EQ(turns.Next(/*looked=*/false), Action::kLook);
  EXPECT_EQ(turns.Next(/*looked=*/true), Action::kServe);
  turns.Close();
  EXPECT_EQ(turns.Next(/*looked=*/false), Action::kServe);
  EXPECT_EQ(turns.Take(), 1);
  EXPECT_EQ(turns.Next(/*looked=*/true), Action::kAwait);
}

}  // namespace
}  // namespace psring
