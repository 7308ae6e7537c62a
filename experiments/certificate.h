// The outcome of a check that every run makes of itself.
#ifndef PSRING_EXPERIMENTS_CERTIFICATE_H_
#define PSRING_EXPERIMENTS_CERTIFICATE_H_

#include <string>

namespace psring {

enum class Verdict { kPass, kFail, kNotApplicable };

// "PASS", "FAIL", "not applicable".
const char* ToString(Verdict verdict);

struct Certificate {
  Verdict verdict = Verdict::kNotApplicable;
  std::string why;  // What failed, or what was compared.
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_CERTIFICATE_H_
