#include "experiments/explain/replay.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/errors.h"
#include "common/status_macros.h"
#include "glog/logging.h"

// A *pair* is a move that sends and the move of another rank that receives it: the k-th
// that one rank sends to another belongs to the k-th that the other receives from it.
//
// A step is a set of pairs that move at the same time: each sender sends what it has at
// the start of the step, and each receiver has what comes of it at the end. So a move may
// be in a step once every earlier move that it trails, and that shares elements with it,
// has been in a step before. One exception: a receiving move may be in the same step as a
// send that it trails, as when two ranks exchange their values.

namespace psring {
namespace {

struct Place {
  int rank = 0;
  int move = 0;
};
struct Pair {
  Place send;
  Place receive;
};

bool Overlap(Range a, Range b) {
  return a.count > 0 && b.count > 0 && a.begin < b.end() && b.begin < a.end();
}

class Replayer {
 public:
  Replayer(const ObservedOperation& operation, const ReplayTitles& titles)
      : operation_(operation), titles_(titles), values_(operation.inputs) {
    for (const MoveList& moves : operation.moves) done_.emplace_back(moves.size(), false);
    FindPairs();
  }

  absl::StatusOr<std::vector<StoryStep>> Run() {
    size_t last_adding = 0;
    while (!pairs_.empty()) {
      const std::vector<Pair> ready = TakeReady();
      if (ready.empty()) return CheckFailedError("the moves wait for each other");
      StoryStep& step = steps_.emplace_back();
      step.title = titles_.spreading;
      for (const Pair& pair : ready) {
        ASSIGN_OR_RETURN(Transfer transfer, Send(pair));
        step.transfers.push_back(std::move(transfer));
      }
      for (size_t i = 0; i < ready.size(); ++i) {
        if (Receive(ready[i], &step.transfers[i])) last_adding = steps_.size();
      }
      holders_.push_back(Holders());
    }
    for (size_t i = 0; i < last_adding; ++i) steps_[i].title = titles_.adding;
    if (last_adding > 0) {
      steps_[last_adding - 1].notes.push_back(absl::StrCat(
          "Everything is added up. Finished sums: ", holders_[last_adding - 1], "."));
    }
    RETURN_IF_ERROR(CheckResults());
    if (!steps_.empty()) {
      steps_.back().notes.push_back(
          "Every rank has every sum, the same bits: this is what each has got.");
    }
    return std::move(steps_);
  }

 private:
  const Move& At(const Place& place) const {
    return operation_.moves[place.rank][place.move];
  }

  void FindPairs() {
    const auto next_receive = [this](int rank, int peer, int after) {
      const MoveList& moves = operation_.moves[rank];
      for (int i = after; i < moves.size(); ++i) {
        if (moves[i].peer == peer &&
            (moves[i].kind == MoveKind::kAdd || moves[i].kind == MoveKind::kReplace)) {
          return i;
        }
      }
      return moves.size();
    };
    const int ranks = static_cast<int>(operation_.moves.size());
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<int> after(ranks, 0);  // By peer, where to look for its next receive.
      for (int i = 0; i < operation_.moves[rank].size(); ++i) {
        const Move& move = operation_.moves[rank][i];
        if (move.kind != MoveKind::kSend) continue;
        const int receive = next_receive(move.peer, rank, after[move.peer]);
        CHECK_LT(receive, operation_.moves[move.peer].size());
        after[move.peer] = receive + 1;
        if (move.range.count == 0) continue;  // Parts of less elements than ranks.
        pairs_.push_back({.send = {rank, i}, .receive = {move.peer, receive}});
      }
    }
  }

  // Whether every move that `place` trails satisfies `settled`.
  template <typename Settled>
  bool Free(const Place& place, Settled settled) const {
    const Move& move = At(place);
    for (int i = move.since; i < place.move; ++i) {
      const Place earlier = {place.rank, i};
      if (Overlap(At(earlier).range, move.range) && !settled(earlier)) return false;
    }
    return true;
  }

  std::vector<Pair> TakeReady() {
    // From all that might be ready, takes out whatever needs one that is not among them,
    // until nothing changes.
    std::vector<Pair> ready = pairs_;
    const auto done = [&](const Place& place) { return done_[place.rank][place.move]; };
    const auto done_or_sent = [&](const Place& place) {
      return done(place) ||
             std::any_of(ready.begin(), ready.end(), [&](const Pair& other) {
               return other.send.rank == place.rank && other.send.move == place.move;
             });
    };
    const auto must_wait = [&](const Pair& pair) {
      return !Free(pair.send, [&](const Place& earlier) {
        return At(earlier).kind == MoveKind::kSend || done(earlier);
      }) || !Free(pair.receive, done_or_sent);
    };
    for (;;) {
      const auto waiting = std::find_if(ready.begin(), ready.end(), must_wait);
      if (waiting == ready.end()) break;
      ready.erase(waiting);
    }
    for (const Pair& pair : ready) {
      done_[pair.send.rank][pair.send.move] = true;
      done_[pair.receive.rank][pair.receive.move] = true;
    }
    std::erase_if(pairs_, [&](const Pair& pair) { return done(pair.send); });
    return ready;
  }

  // Compares what was sent with what the sender has by now.
  absl::StatusOr<Transfer> Send(const Pair& pair) {
    const Range range = At(pair.send).range;
    Transfer transfer{.from = pair.send.rank, .to = pair.receive.rank, .range = range};
    const auto& has = values_[transfer.from];
    transfer.sent.assign(has.begin() + range.begin, has.begin() + range.end());
    const auto stream = operation_.sent.find({transfer.from, transfer.to});
    int64_t& position = position_[{transfer.from, transfer.to}];
    if (stream == operation_.sent.end() ||
        position + range.count > static_cast<int64_t>(stream->second.size()) ||
        !std::equal(transfer.sent.begin(), transfer.sent.end(),
                    stream->second.begin() + position)) {
      return CheckFailedError(absl::StrCat("rank ", transfer.from, " did not send rank ",
                                           transfer.to, " what it should: elements ",
                                           range.begin, " to ", range.end()));
    }
    position += range.count;
    return transfer;
  }

  // Returns whether it has added.
  bool Receive(const Pair& pair, Transfer* transfer) {
    const bool adds = At(pair.receive).kind == MoveKind::kAdd;
    float* const own = values_[transfer->to].data() + transfer->range.begin;
    for (int64_t i = 0; i < transfer->range.count; ++i) {
      own[i] = adds ? own[i] + transfer->sent[i] : transfer->sent[i];
    }
    transfer->then.assign(own, own + transfer->range.count);
    return adds;
  }

  float Sum(int64_t element) const {
    float sum = 0;
    for (const auto& input : operation_.inputs) sum += input[element];
    return sum;
  }

  // "rank 0 has 0-2, rank 1 has 3-5".
  std::string Holders() const {
    std::vector<std::string> texts;
    for (size_t rank = 0; rank < values_.size(); ++rank) {
      std::vector<std::string> runs;
      const auto count = static_cast<int64_t>(values_[rank].size());
      for (int64_t i = 0; i < count; ++i) {
        const int64_t begin = i;
        while (i < count && values_[rank][i] == Sum(i)) ++i;
        if (i == begin) continue;
        runs.push_back(i == begin + 1 ? absl::StrCat(begin)
                                      : absl::StrCat(begin, "-", i - 1));
      }
      if (runs.empty()) continue;
      texts.push_back(absl::StrCat("rank ", rank, " has ", absl::StrJoin(runs, " and ")));
    }
    return absl::StrJoin(texts, ", ");
  }

  absl::Status CheckResults() const {
    for (size_t rank = 0; rank < values_.size(); ++rank) {
      for (size_t i = 0; i < values_[rank].size(); ++i) {
        if (values_[rank][i] == Sum(static_cast<int64_t>(i)) &&
            operation_.results[rank][i] == values_[rank][i]) {
          continue;
        }
        return CheckFailedError(absl::StrCat("rank ", rank, " has a wrong element ", i,
                                             ": ", operation_.results[rank][i]));
      }
    }
    for (const auto& [link, stream] : operation_.sent) {
      const auto known = position_.find(link);
      if ((known == position_.end() ? 0 : known->second) !=
          static_cast<int64_t>(stream.size())) {
        return CheckFailedError(absl::StrCat("rank ", link.first, " sent rank ",
                                             link.second, " more than it should"));
      }
    }
    return absl::OkStatus();
  }

  const ObservedOperation& operation_;
  const ReplayTitles& titles_;
  std::vector<std::vector<float>> values_;           // By rank, as of the last step.
  std::vector<std::vector<bool>> done_;              // By rank and move.
  std::vector<Pair> pairs_;                          // That have not moved yet.
  std::map<std::pair<int, int>, int64_t> position_;  // In each link's stream.
  std::vector<StoryStep> steps_;
  std::vector<std::string> holders_;  // After each step.
};

}  // namespace

absl::StatusOr<std::vector<StoryStep>> Replay(const ObservedOperation& operation,
                                              const ReplayTitles& titles) {
  return Replayer(operation, titles).Run();
}

}  // namespace psring
