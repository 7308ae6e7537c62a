// Which of the answers that wait for one worker's stream is sent next.
#ifndef PSRING_SERVER_ANSWER_QUEUE_H_
#define PSRING_SERVER_ANSWER_QUEUE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace psring {

// Where the link is the limit, answers wait for one another, and the worker's next
// forward begins with the layers at the front of the flat buffer: so of those that wait,
// the answer whose slot begins first goes first.
//
// They are sent in rounds. A round has at most one answer of each slot: one whose slot is
// in the round already begins the next round, and a round goes out before the next one.
// So answers of one slot keep their order, and an answer is overtaken by at most one
// other of each slot, however fast these come. In a step every slot is answered once, so
// that rounds are steps where a worker has its answers before it goes on.
//
// Allocates only for more answers, or other slots, than there have been at once. Pure;
// not thread-safe.
template <typename Answer>
class AnswerQueue {
 public:
  // `begin`: of the slot in the flat buffer; any number beyond the slots' where the
  // answer is about none.
  void Push(int64_t begin, Answer answer) {
    int64_t& last = last_round_[begin];  // 0: none yet.
    if (last == round_) ++round_;
    last = round_;
    waiting_.push_back({.order = {round_, begin}, .answer = std::move(answer)});
    std::push_heap(waiting_.begin(), waiting_.end(), IsLater);
  }

  // Takes the next one; there is one.
  Answer Pop() {
    std::pop_heap(waiting_.begin(), waiting_.end(), IsLater);
    Answer next = std::move(waiting_.back().answer);
    waiting_.pop_back();
    return next;
  }

  bool empty() const { return waiting_.empty(); }
  void Clear() { waiting_.clear(); }

 private:
  struct Waiting {
    std::pair<int64_t, int64_t> order;  // Round, begin: no two are the same.
    Answer answer;
  };

  static bool IsLater(const Waiting& a, const Waiting& b) { return a.order > b.order; }

  int64_t round_ = 1;                      // Of the answer that came last.
  std::map<int64_t, int64_t> last_round_;  // By begin.
  std::vector<Waiting> waiting_;           // A heap, the next one in front.
};

}  // namespace psring

#endif  // PSRING_SERVER_ANSWER_QUEUE_H_
