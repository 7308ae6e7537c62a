#include "ring/tcp_handshake.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/fingerprint.h"

namespace psring {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint64_t kMagic = 0x31676e6972737020;  // " psring1"
constexpr uint32_t kVersion = 2;

}  // namespace

Handshake MakeHandshake(const RingMember& self, int receiver, int connection,
                        HandshakeVerdict verdict) {
  Handshake handshake = {.magic = kMagic,
                         .version = kVersion,
                         .verdict = verdict,
                         .job_fingerprint = FingerprintOf(self.job),
                         .layout_fingerprint = self.layout_fingerprint,
                         .ranks = self.ranks,
                         .sender = self.rank,
                         .receiver = receiver,
                         .connection = connection,
                         .lanes = self.lanes,
                         .job = {}};
  std::memcpy(handshake.job, self.job.data(),
              std::min(self.job.size(), sizeof(handshake.job)));
  return handshake;
}

bool HasMagic(const Handshake& handshake) { return handshake.magic == kMagic; }

absl::Status JudgeHandshake(const Handshake& handshake, const RingMember& self,
                            int sender) {
  if (!HasMagic(handshake)) return absl::NotFoundError("not a psring connection");
  if (handshake.version != kVersion) {
    return absl::NotFoundError(absl::StrFormat(
        "speaks version %u of the protocol between ranks, and this rank version %u",
        handshake.version, kVersion));
  }
  const std::string both =
      absl::StrCat(DescribeSender(handshake), ", for worker ", handshake.receiver,
                   "; this is job '", self.job, "', worker ", self.rank, " of ",
                   self.ranks, ", and expects worker ", sender);
  if (handshake.job_fingerprint != FingerprintOf(self.job) ||
      handshake.sender != sender || handshake.receiver != self.rank) {
    return absl::NotFoundError(both);
  }
  if (handshake.ranks != self.ranks) return absl::FailedPreconditionError(both);
  if (handshake.lanes != self.lanes) {
    return absl::FailedPreconditionError(
        absl::StrCat("uses ", handshake.lanes, " connections to a peer, and this rank ",
                     self.lanes, ": ", both));
  }
  if (handshake.connection < kControlConnection ||
      handshake.connection >= ConnectionsEnd(self.lanes)) {
    return absl::NotFoundError(absl::StrCat("connection ", handshake.connection, " of ",
                                            self.lanes, " each way: ", both));
  }
  if (handshake.layout_fingerprint != self.layout_fingerprint) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "its settings, tensors or buckets differ from this rank's (fingerprint "
        "%016x there, %016x here): %s",
        handshake.layout_fingerprint, self.layout_fingerprint, both));
  }
  return absl::OkStatus();
}

std::string DescribeSender(const Handshake& handshake) {
  const absl::string_view job(handshake.job,
                              strnlen(handshake.job, sizeof(handshake.job)));
  // Escaped: whoever called may have sent any bytes, and this is logged, and reported in
  // messages that must be UTF-8.
  return absl::StrCat("job '", absl::CHexEscape(job), "', worker ", handshake.sender,
                      " of ", handshake.ranks);
}

}  // namespace psring
