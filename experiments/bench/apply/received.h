// How the bytes of a gradient lie in a server's memory once they have been received.
// Pure.
#ifndef PSRING_EXPERIMENTS_BENCH_APPLY_RECEIVED_H_
#define PSRING_EXPERIMENTS_BENCH_APPLY_RECEIVED_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/float_pieces.h"

namespace psring {

enum class PieceKind {
  kWhole,  // One after the other, aligned as floats.
  kCut,    // As gRPC receives them: below.
};
// "whole", "cut".
std::string PieceKindName(PieceKind kind);
// Of one of these names.
PieceKind PieceKindOf(const std::string& name);

// HTTP/2 carries a message in frames of at most this many bytes, each behind a header,
// and gRPC hands over the frames' payloads where they were received. The first begins
// with the headers of the message and of our fields: an odd number of bytes, so that
// every piece but the last ends within a float, and pieces are unaligned each in its own
// way.
inline constexpr int64_t kFrameBytes = 16384;
inline constexpr int64_t kFrameHeaderBytes = 9;
inline constexpr int64_t kMessageHeaderBytes = 25;

// Memory that a message of so many bytes of floats takes.
int64_t ReceivedBytes(PieceKind kind, int64_t float_bytes);
// The floats in that memory, front to back.
std::vector<Bytes> ReceivedPieces(PieceKind kind, const std::byte* memory,
                                  int64_t float_bytes);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_BENCH_APPLY_RECEIVED_H_
