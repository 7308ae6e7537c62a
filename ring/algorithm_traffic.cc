#include "glog/logging.h"
#include "ring/algorithm.h"
#include "ring/algorithm_shape.h"
#include "ring/ring_schedule.h"

namespace psring {
namespace {

// All in elements.

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
    elements.out = elements.in = groups.log_count() * n;
  } else {
    // Halving sends, and doubling receives, all but the group's own chunks; what is kept
    // in each round of halving is received, and sent in that of doubling.
    const int64_t others = n - groups.region(part, group, 0).count;
    int64_t kept = 0;
    for (int bit = 0; bit < groups.log_count(); ++bit) {
      kept += groups.region(part, group, bit).count;
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

OperationBytes PayloadBytes(Algorithm algorithm, OperationKind kind, int64_t count,
                            int position, int ranks, int64_t element_bytes) {
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
  return {.out = elements.out * element_bytes, .in = elements.in * element_bytes};
}

}  // namespace psring
