// What one rank does in one operation, as data. Pure.
#ifndef PSRING_RING_MOVE_H_
#define PSRING_RING_MOVE_H_

#include <cstdint>
#include <vector>

#include "common/partition.h"

namespace psring {

enum class MoveKind : uint8_t {
  kSend,         // The range's elements, as they are when they go.
  kAdd,          // Received elements are added to those of the range: own + received.
  kReplace,      // Received elements take the place of those of the range.
  kAcknowledge,  // Tells the peer that everything this rank has to do is done but this.
};

// Ranks' moves fit together: what one sends to another, in its order, the other adds or
// replaces in the same order. A rank's list is a correct program when it runs one move
// after the other; run all at once, element by element, it is one if each move trails
// what it conflicts with:
//
//   a move that trails earlier ones deals with an element only when each of those that
//   has it in its range has dealt with it. Two sends never conflict.
struct Move {
  MoveKind kind = MoveKind::kSend;
  int peer = 0;
  Range range = {};
  int since = 0;  // Trails the earlier moves from this one on.
};

class MoveList {
 public:
  // Returns its index. Without `since` it trails nothing.
  int Append(MoveKind kind, int peer, Range range) {
    return Append(kind, peer, range, size());
  }
  int Append(MoveKind kind, int peer, Range range, int since) {
    moves_.push_back({.kind = kind, .peer = peer, .range = range, .since = since});
    return size() - 1;
  }

  int size() const { return static_cast<int>(moves_.size()); }
  Move& operator[](int index) { return moves_[index]; }
  const Move& operator[](int index) const { return moves_[index]; }
  // Keeps its memory.
  void Clear() { moves_.clear(); }
  void Reserve(int moves) { moves_.reserve(moves); }

 private:
  std::vector<Move> moves_;
};

}  // namespace psring

#endif  // PSRING_RING_MOVE_H_
