// The first message on every TCP connection between ranks, by which both ends make sure
// that they are the peers they expect. Pure.
#ifndef PSRING_RING_TCP_HANDSHAKE_H_
#define PSRING_RING_TCP_HANDSHAKE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace psring {

// What a rank says of itself and expects of its peers.
struct RingMember {
  std::string job;  // Unique among the jobs that might meet.
  int rank = 0;
  int ranks = 0;
  // Of everything that decides where bytes go; see common/job_plan.h.
  uint64_t layout_fingerprint = 0;
  int lanes = 1;  // Connections for payload between two ranks, each way.
};

// The connections between two ranks: one for control; and lanes, which carry payload one
// way each, from the caller those with even numbers and from the listener the odd ones.
inline constexpr int kControlConnection = -1;
constexpr int ConnectionsEnd(int lanes) { return 2 * lanes; }
constexpr bool IsFromCaller(int connection) { return connection % 2 == 0; }

enum class HandshakeVerdict : uint32_t { kAsking = 0, kWelcome = 1, kRefused = 2 };

// As it lies on the wire, in the byte order of the (little-endian) hosts. The caller
// sends one with kAsking, and the listener answers with its own.
struct Handshake {
  uint64_t magic;
  uint32_t version;
  HandshakeVerdict verdict;
  uint64_t job_fingerprint;
  uint64_t layout_fingerprint;
  int32_t ranks;
  int32_t sender;
  int32_t receiver;
  int32_t connection;
  int32_t lanes;
  char job[76];  // Truncated, padded with zeros: for messages only.
};
static_assert(sizeof(Handshake) == 128);

Handshake MakeHandshake(const RingMember& self, int receiver, int connection,
                        HandshakeVerdict verdict);

// Whether the first bytes could belong to a Handshake of any version.
bool HasMagic(const Handshake& handshake);

// Judges a Handshake that came to `self` where one from `sender` is expected.
//   kNotFound: a stranger (another program, version, job or rank); the right one may
//     still come.
//   kFailedPrecondition: the peer itself, but set up differently; nobody else will come.
absl::Status JudgeHandshake(const Handshake& handshake, const RingMember& self,
                            int sender);

// "job 'a', worker 1 of 4".
std::string DescribeSender(const Handshake& handshake);

}  // namespace psring

#endif  // PSRING_RING_TCP_HANDSHAKE_H_
