#include "ring/algorithm.h"

#include <algorithm>
#include <bit>
#include <set>

#include "glog/logging.h"
#include "ring/ring_schedule.h"

namespace psring {
namespace {

constexpr auto kSend = MoveKind::kSend;
constexpr auto kAdd = MoveKind::kAdd;
constexpr auto kReplace = MoveKind::kReplace;
constexpr auto kAcknowledge = MoveKind::kAcknowledge;

// One position's view of an operation: what all builders below need.
struct Part {
  int64_t count;
  int position;
  int ranks;

  Range all() const { return {.begin = 0, .count = count}; }
  Range chunk(int position) const { return PartitionRange(count, ranks, position); }
  // Chunks first .. end - 1, which lie side by side.
  Range chunks(int first, int end) const {
    const int64_t begin = first == ranks ? count : chunk(first).begin;
    return {.begin = begin, .count = (end == ranks ? count : chunk(end).begin) - begin};
  }
  int64_t own() const { return chunk(position).count; }
};

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

OperationBytes RingElements(OperationKind kind, const Part& part) {
  const int64_t n = part.count;
  const int64_t left = part.chunk(LeftOf(part.position, part.ranks)).count;
  const int64_t right = part.chunk(RightOf(part.position, part.ranks)).count;
  switch (kind) {
    case OperationKind::kBarrier:
    case OperationKind::kAllReduce:
      return {.out = 2 * n - part.own() - right, .in = 2 * n - left - part.own()};
    case OperationKind::kReduceScatter:
      return {.out = n - part.own(), .in = n - left};
    case OperationKind::kAllGather:
      return {.out = n - right, .in = n - part.own()};
    case OperationKind::kBroadcast:
      return {.out = part.position == part.ranks - 1 ? 0 : n,
              .in = part.position == 0 ? 0 : n};
  }
  return {};
}

// --- Trees. The parent of a position lies nearer to 0, its children farther; the subtree
// of a position is a run of positions that begins with it, so that its chunks are one
// range. Sums go up, child by child in ascending order; results come down. What comes
// down to an element comes only after this rank's sum of it has gone up.
//
//   binomial      parent(v) = v without its lowest bit: log N levels
//   star          parent(v) = 0: gather_broadcast

struct Tree {
  bool star;
  int ranks;

  int parent(int position) const { return star ? 0 : position & (position - 1); }
  // One past the last position of the subtree.
  int end(int position) const {
    if (position == 0) return ranks;
    return star ? position + 1 : std::min(ranks, position + (position & -position));
  }
  int child_count(int position) const {
    if (star) return position == 0 ? ranks - 1 : 0;
    int count = 0;
    for (int bit = 1; position + bit < end(position); bit *= 2) ++count;
    return count;
  }
  // Ascending, the smallest subtrees first.
  int child(int position, int index) const {
    return star ? 1 + index : position + (1 << index);
  }
};

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

OperationBytes TreeElements(const Tree& tree, OperationKind kind, const Part& part) {
  const int64_t n = part.count;
  const int64_t children = tree.child_count(part.position);
  const int64_t parents = part.position == 0 ? 0 : 1;
  const int64_t subtree = part.chunks(part.position, tree.end(part.position)).count;
  switch (kind) {
    case OperationKind::kBarrier:
    case OperationKind::kAllReduce:
      return {.out = (children + parents) * n, .in = (children + parents) * n};
    case OperationKind::kReduceScatter:
      return {.out = parents * n + subtree - part.own(),
              .in = children * n + parents * subtree};
    case OperationKind::kAllGather:
      return {.out = parents * subtree + children * n - (subtree - part.own()),
              .in = subtree - part.own() + parents * (n - subtree)};
    case OperationKind::kBroadcast:
      return {.out = children * n, .in = parents * n};
  }
  return {};
}

// --- Halving and doubling, among P = 2^k groups of one or two neighbouring positions:
// the first N - P groups are pairs. In a pair the second position only gives its terms to
// the first beforehand, and gets the result afterwards.
//
//   halving   P groups share a range of chunks. Each sends to its partner, in the other
//             half of the groups, that half's chunks, and adds its own half's; then the
//             same within each half, until a group holds the sum of its own chunks.
//   doubling  the same backwards: partners give each other all that they hold.
//
// Small sums go by recursive doubling instead: partners exchange everything, and add.
// Both then compute own + received, which is the same either way round.

struct Groups {
  int ranks;

  int count() const {
    return static_cast<int>(std::bit_floor(static_cast<unsigned>(ranks)));
  }
  int pairs() const { return ranks - count(); }
  int of(int position) const {
    return position < 2 * pairs() ? position / 2 : position - pairs();
  }
  // Its (first) position; also defined one past the last group.
  int first(int group) const { return group < pairs() ? 2 * group : group + pairs(); }
  bool is_second(int position) const {
    return position < 2 * pairs() && position % 2 == 1;
  }
};

// The chunks of all groups that share the bits of `group` above the lowest `bits`.
Range Region(const Groups& groups, const Part& part, int group, int bits) {
  const int first = group >> bits << bits;
  return part.chunks(groups.first(first), groups.first(first + (1 << bits)));
}

int LogGroups(const Groups& groups) {
  return std::countr_zero(static_cast<unsigned>(groups.count()));
}

void AppendHalving(const Groups& groups, const Part& part, int since, MoveList* moves) {
  const int group = groups.of(part.position);
  for (int bit = LogGroups(groups) - 1; bit >= 0; --bit) {
    const int partner = group ^ (1 << bit);
    moves->Append(kSend, groups.first(partner), Region(groups, part, partner, bit),
                  since);
    since = moves->Append(kAdd, groups.first(partner), Region(groups, part, group, bit),
                          since);
  }
}

// Trails everything from `since` on: what is sent has come in several moves.
void AppendDoubling(const Groups& groups, const Part& part, int since, MoveList* moves) {
  const int group = groups.of(part.position);
  for (int bit = 0; bit < LogGroups(groups); ++bit) {
    const int partner = group ^ (1 << bit);
    moves->Append(kSend, groups.first(partner), Region(groups, part, group, bit), since);
    moves->Append(kReplace, groups.first(partner), Region(groups, part, partner, bit));
  }
}

// An element is added to only after it has gone to the partner as it was.
void AppendExchanges(const Groups& groups, const Part& part, int since, MoveList* moves) {
  const int group = groups.of(part.position);
  for (int bit = 0; bit < LogGroups(groups); ++bit) {
    const int partner = groups.first(group ^ (1 << bit));
    since = moves->Append(kSend, partner, part.all(), since);
    since = moves->Append(kAdd, partner, part.all(), since);
  }
}

bool IsSmall(OperationKind kind, int64_t count) {
  return (kind == OperationKind::kAllReduce || kind == OperationKind::kBarrier) &&
         count <= kDoublingBytes / int64_t{sizeof(float)};
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

OperationBytes HalvingDoublingElements(OperationKind kind, const Part& part) {
  if (kind == OperationKind::kBroadcast) {
    return TreeElements({.star = false, .ranks = part.ranks}, kind, part);
  }
  const Groups groups{part.ranks};
  const int group = groups.of(part.position);
  const int64_t n = part.count;
  const bool scatters = kind != OperationKind::kAllGather;
  const bool gathers = kind != OperationKind::kReduceScatter;
  if (groups.is_second(part.position)) {
    return {.out = scatters ? n : part.own(),
            .in = (scatters && gathers) ? n : (scatters ? part.own() : n - part.own())};
  }
  OperationBytes elements;
  if (IsSmall(kind, n)) {
    elements.out = elements.in = LogGroups(groups) * n;
  } else {
    // Halving sends, and doubling receives, all but the group's own chunks; what is kept
    // in each round of halving is received, and sent in that of doubling.
    const int64_t others = n - Region(groups, part, group, 0).count;
    int64_t kept = 0;
    for (int bit = 0; bit < LogGroups(groups); ++bit) {
      kept += Region(groups, part, group, bit).count;
    }
    elements = {.out = (scatters ? others : 0) + (gathers ? kept : 0),
                .in = (scatters ? kept : 0) + (gathers ? others : 0)};
  }
  if (group < groups.pairs()) {
    const int64_t seconds = part.chunk(part.position + 1).count;
    elements.in += scatters ? n : seconds;
    elements.out += (scatters && gathers) ? n : (scatters ? seconds : n - seconds);
  }
  return elements;
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

OperationBytes PayloadBytes(Algorithm algorithm, OperationKind kind, int64_t count,
                            int position, int ranks) {
  if (ranks == 1) return {};
  const Part part{.count = count, .position = position, .ranks = ranks};
  const auto elements = [&]() -> OperationBytes {
    switch (algorithm) {
      case RingMode::RING:
        return RingElements(kind, part);
      case RingMode::HALVING_DOUBLING:
        return HalvingDoublingElements(kind, part);
      case RingMode::TREE:
        return TreeElements({.star = false, .ranks = ranks}, kind, part);
      case RingMode::GATHER_BROADCAST:
        return TreeElements({.star = true, .ranks = ranks}, kind, part);
      default:
        LOG(FATAL) << "unknown algorithm " << algorithm;
    }
  }();
  const int64_t float_bytes = sizeof(float);
  return {.out = elements.out * float_bytes, .in = elements.in * float_bytes};
}

}  // namespace psring
