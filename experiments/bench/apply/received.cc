#include "experiments/bench/apply/received.h"

#include <algorithm>

#include "glog/logging.h"

namespace psring {
namespace {

int64_t FramesOf(int64_t float_bytes) {
  return (float_bytes + kMessageHeaderBytes + kFrameBytes - 1) / kFrameBytes;
}

}  // namespace

std::string PieceKindName(PieceKind kind) {
  return kind == PieceKind::kCut ? "cut" : "whole";
}

PieceKind PieceKindOf(const std::string& name) {
  for (const PieceKind kind : {PieceKind::kWhole, PieceKind::kCut}) {
    if (name == PieceKindName(kind)) return kind;
  }
  LOG(FATAL) << "no pieces are " << name;
}

int64_t ReceivedBytes(PieceKind kind, int64_t float_bytes) {
  if (kind == PieceKind::kWhole) return float_bytes;
  return float_bytes + kMessageHeaderBytes + FramesOf(float_bytes) * kFrameHeaderBytes;
}

std::vector<Bytes> ReceivedPieces(PieceKind kind, const std::byte* memory,
                                  int64_t float_bytes) {
  if (kind == PieceKind::kWhole) {
    return {Bytes(memory, static_cast<size_t>(float_bytes))};
  }
  std::vector<Bytes> pieces;
  pieces.reserve(static_cast<size_t>(FramesOf(float_bytes)));
  const std::byte* at = memory + kFrameHeaderBytes + kMessageHeaderBytes;
  int64_t room = kFrameBytes - kMessageHeaderBytes;
  while (float_bytes > 0) {
    const int64_t size = std::min(float_bytes, room);
    pieces.emplace_back(at, static_cast<size_t>(size));
    at += size + kFrameHeaderBytes;
    float_bytes -= size;
    room = kFrameBytes;
  }
  return pieces;
}

}  // namespace psring
