// Whether the times of an arm on emulated hosts are those of its links. Pure.
#ifndef PSRING_EXPERIMENTS_HOSTS_VALIDITY_H_
#define PSRING_EXPERIMENTS_HOSTS_VALIDITY_H_

#include <string>

#include "experiments/hosts/link_usage.h"
#include "proto/coordinator.pb.h"

namespace psring {

struct Validity {
  enum class Kind {
    kValid,
    kVoid,          // Something else than the links was measured.
    kCannotBeTold,  // The figures allow both.
  };
  Kind kind = Kind::kValid;
  std::string cause = "";  // In two words; empty where it is valid.
  std::string why = "";    // With the figures; the same.

  bool is_void() const { return kind == Kind::kVoid; }
};

// "valid", "void", "cannot be told".
const char* ToString(Validity::Kind kind);

// Of an arm of several workers, whose links have carried something. Void is
//   - "processors": less than 10 % of them were idle, and the busiest link was not full;
//   - "link never busy": no queue was ever found filled, nor the busiest link half used;
//   - "low load": while gradients were on their way, the busiest link was used for less
//     than half of the time.
// The last two cannot be told from what an experiment slows down on purpose.
Validity ValidityOf(const JobSpec& spec, const LinkUsage& usage);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_HOSTS_VALIDITY_H_
