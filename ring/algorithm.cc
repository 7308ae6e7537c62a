#include "ring/algorithm.h"

#include <set>

#include "glog/logging.h"
#include "ring/algorithm_shape.h"
#include "ring/ring_schedule.h"

namespace psring {
namespace {

constexpr auto kSend = MoveKind::kSend;
constexpr auto kAdd = MoveKind::kAdd;
constexpr auto kReplace = MoveKind::kReplace;
constexpr auto kAcknowledge = MoveKind::kAcknowledge;

// --- Ring: ring_schedule.h. What is sent in one hop was received in the hop before. An
// all-gather's final value of an element comes round only after this rank's partial sum
// of it has left, because it was made from it; so the replacing moves need trail nothing.

void AppendHops(const Part& part, int first_hop, int end_hop, MoveList* moves) {
  const auto chunk = [&](int index) { return part.chunk(index); };
  for (int hop = first_hop; hop < end_hop; ++hop) {
    const bool adds = hop < ReduceScatterHops(part.ranks);
    const int before = hop == first_hop ? moves->size() : moves->size() - 1;
    moves->Append(kSend, RightOf(part.position, part.ranks),
                  chunk(SentChunk(part.position, hop, part.ranks)), before);
    moves->Append(adds ? kAdd : kReplace, LeftOf(part.position, part.ranks),
                  chunk(ReceivedChunk(part.position, hop, part.ranks)));
  }
}

// The acknowledgment that closes the ring tells position 0 that all have the values.
void AppendRingBroadcast(const Part& part, MoveList* moves) {
  const int left = LeftOf(part.position, part.ranks);
  const int right = RightOf(part.position, part.ranks);
  const bool first = part.position == 0;
  const bool last = right == 0;
  if (!first) moves->Append(kReplace, left, part.all());
  if (!last) moves->Append(kSend, right, part.all(), 0);
  if (first) moves->Append(kReplace, left, {});
  if (last) moves->Append(kAcknowledge, right, {});
}

void AppendRing(OperationKind kind, const Part& part, MoveList* moves) {
  const int scatter_end = ReduceScatterHops(part.ranks);
  const int end = RingHops(part.ranks);
  switch (kind) {
    case OperationKind::kBarrier:
    case OperationKind::kAllReduce:
      return AppendHops(part, 0, end, moves);
    case OperationKind::kReduceScatter:
      return AppendHops(part, 0, scatter_end, moves);
    case OperationKind::kAllGather:
      return AppendHops(part, scatter_end, end, moves);
    case OperationKind::kBroadcast:
      return AppendRingBroadcast(part, moves);
  }
}

// --- Trees (algorithm_shape.h). Sums go up, child by child in ascending order; results
// come down. What comes down to an element comes only after this rank's sum of it has
// gone up.

// The sum of the subtree, ready to go to the parent. Returns the first adding move.
int AppendUp(const Tree& tree, const Part& part, MoveList* moves) {
  const int first = moves->size();
  for (int i = 0; i < tree.child_count(part.position); ++i) {
    moves->Append(kAdd, tree.child(part.position, i), part.all(), first);
  }
  if (part.position != 0) {
    moves->Append(kSend, tree.parent(part.position), part.all(), first);
  }
  return first;
}

// Results from the parent, and on to the children: all, or the chunks of the subtree. The
// largest subtree first: it has the longest way to go.
void AppendDown(const Tree& tree, const Part& part, bool scatter, int since,
                MoveList* moves) {
  const auto share = [&](int position) {
    return scatter ? part.chunks(position, tree.end(position)) : part.all();
  };
  if (part.position != 0) {
    since =
        moves->Append(kReplace, tree.parent(part.position), share(part.position), since);
  }
  for (int i = tree.child_count(part.position) - 1; i >= 0; --i) {
    const int child = tree.child(part.position, i);
    moves->Append(kSend, child, share(child), since);
  }
}

// The chunks of the subtree go up, and down come the others': what lies before them and
// what lies behind.
void AppendTreeAllGather(const Tree& tree, const Part& part, MoveList* moves) {
  const auto append = [&](MoveKind kind, int peer, int inside, int since) {
    const Range chunks = part.chunks(inside, tree.end(inside));
    moves->Append(kind, peer, {.begin = 0, .count = chunks.begin}, since);
    moves->Append(kind, peer, {.begin = chunks.end(), .count = part.count - chunks.end()},
                  since);
  };
  const int first = moves->size();
  const int parent = tree.parent(part.position);
  const int children = tree.child_count(part.position);
  for (int i = 0; i < children; ++i) {
    const int child = tree.child(part.position, i);
    moves->Append(kReplace, child, part.chunks(child, tree.end(child)));
  }
  if (part.position != 0) {
    moves->Append(kSend, parent, part.chunks(part.position, tree.end(part.position)),
                  first);
    append(kReplace, parent, part.position, moves->size());
  }
  for (int i = children - 1; i >= 0; --i) {
    const int child = tree.child(part.position, i);
    append(kSend, child, child, first);
  }
}

// A rank acknowledges to its parent, so that position 0 knows when all have the values.
void AppendTreeBroadcast(const Tree& tree, const Part& part, MoveList* moves) {
  AppendDown(tree, part, /*scatter=*/false, moves->size(), moves);
  for (int i = 0; i < tree.child_count(part.position); ++i) {
    moves->Append(kReplace, tree.child(part.position, i), {});
  }
  if (part.position != 0) {
    moves->Append(kAcknowledge, tree.parent(part.position), {});
  }
}

void AppendTree(const Tree& tree, OperationKind kind, const Part& part, MoveList* moves) {
  switch (kind) {
    case OperationKind::kBarrier:
    case OperationKind::kAllReduce:
    case OperationKind::kReduceScatter: {
      const int since = AppendUp(tree, part, moves);
      AppendDown(tree, part, kind == OperationKind::kReduceScatter, since, moves);
      return;
    }
    case OperationKind::kAllGather:
      return AppendTreeAllGather(tree, part, moves);
    case OperationKind::kBroadcast:
      return AppendTreeBroadcast(tree, part, moves);
  }
}

// --- Halving and doubling, among groups of one or two positions (algorithm_shape.h). In
// a pair the second position only gives its terms to the first beforehand, and gets the
// result afterwards.
//
//   halving   P groups share a range of chunks. Each sends to its partner, in the other
//             half of the groups, that half's chunks, and adds its own half's; then the
//             same within each half, until a group holds the sum of its own chunks.
//   doubling  the same backwards: partners give each other all that they hold.
//
// Small sums go by recursive doubling instead: partners exchange everything, and add.
// Both then compute own + received, which is the same either way round.

void AppendHalving(const Groups& groups, const Part& part, int since, MoveList* moves) {
  const int group = groups.of(part.position);
  for (int bit = groups.log_count() - 1; bit >= 0; --bit) {
    const int partner = group ^ (1 << bit);
    moves->Append(kSend, groups.first(partner), groups.region(part, partner, bit), since);
    since = moves->Append(kAdd, groups.first(partner), groups.region(part, group, bit),
                          since);
  }
}

// Trails everything from `since` on: what is sent has come in several moves.
void AppendDoubling(const Groups& groups, const Part& part, int since, MoveList* moves) {
  const int group = groups.of(part.position);
  for (int bit = 0; bit < groups.log_count(); ++bit) {
    const int partner = group ^ (1 << bit);
    moves->Append(kSend, groups.first(partner), groups.region(part, group, bit), since);
    moves->Append(kReplace, groups.first(partner), groups.region(part, partner, bit));
  }
}

// An element is added to only after it has gone to the partner as it was.
void AppendExchanges(const Groups& groups, const Part& part, int since, MoveList* moves) {
  const int group = groups.of(part.position);
  for (int bit = 0; bit < groups.log_count(); ++bit) {
    const int partner = groups.first(group ^ (1 << bit));
    since = moves->Append(kSend, partner, part.all(), since);
    since = moves->Append(kAdd, partner, part.all(), since);
  }
}

void AppendHalvingDoubling(OperationKind kind, const Part& part, MoveList* moves) {
  if (kind == OperationKind::kBroadcast) {
    return AppendTree({.star = false, .ranks = part.ranks}, kind, part, moves);
  }
  const Groups groups{part.ranks};
  const int group = groups.of(part.position);
  const bool scatters = kind != OperationKind::kAllGather;
  const bool gathers = kind != OperationKind::kReduceScatter;
  const int first = groups.first(group);
  const int second = first + 1;
  const Range seconds_chunk = part.chunk(group < groups.pairs() ? second : first);
  const Range before = {.begin = 0, .count = seconds_chunk.begin};
  const Range behind = {.begin = seconds_chunk.end(),
                        .count = part.count - seconds_chunk.end()};
  if (groups.is_second(part.position)) {
    const int sent = moves->Append(kSend, first, scatters ? part.all() : seconds_chunk);
    if (scatters && gathers) {
      moves->Append(kReplace, first, part.all(), sent);
    } else if (scatters) {
      moves->Append(kReplace, first, seconds_chunk, sent);
    } else {
      moves->Append(kReplace, first, before);
      moves->Append(kReplace, first, behind);
    }
    return;
  }
  const bool paired = group < groups.pairs();
  const int since = moves->size();
  if (paired) {
    moves->Append(scatters ? kAdd : kReplace, second,
                  scatters ? part.all() : seconds_chunk);
  }
  if (IsSmall(kind, part.count)) {
    AppendExchanges(groups, part, since, moves);
  } else {
    if (scatters) AppendHalving(groups, part, since, moves);
    if (gathers) AppendDoubling(groups, part, since, moves);
  }
  if (!paired) return;
  if (scatters && gathers) {
    moves->Append(kSend, second, part.all(), since);
  } else if (scatters) {
    moves->Append(kSend, second, seconds_chunk, since);
  } else {
    moves->Append(kSend, second, before, since);
    moves->Append(kSend, second, behind, since);
  }
}

}  // namespace

void AppendMoves(Algorithm algorithm, OperationKind kind, int64_t count, int position,
                 int ranks, MoveList* moves) {
  CHECK(count >= 0 && 0 <= position && position < ranks);
  if (ranks == 1) return;
  const Part part{.count = count, .position = position, .ranks = ranks};
  switch (algorithm) {
    case RingMode::RING:
      return AppendRing(kind, part, moves);
    case RingMode::HALVING_DOUBLING:
      return AppendHalvingDoubling(kind, part, moves);
    case RingMode::TREE:
      return AppendTree({.star = false, .ranks = ranks}, kind, part, moves);
    case RingMode::GATHER_BROADCAST:
      return AppendTree({.star = true, .ranks = ranks}, kind, part, moves);
    default:
      LOG(FATAL) << "unknown algorithm " << algorithm;
  }
}

std::vector<int> LinkedPositions(Algorithm algorithm, int position, int ranks) {
  std::set<int> linked;
  for (const OperationKind kind :
       {OperationKind::kAllReduce, OperationKind::kReduceScatter,
        OperationKind::kAllGather, OperationKind::kBroadcast}) {
    MoveList moves;
    AppendMoves(algorithm, kind, ranks, position, ranks, &moves);
    for (int i = 0; i < moves.size(); ++i) linked.insert(moves[i].peer);
  }
  return {linked.begin(), linked.end()};
}

}  // namespace psring
