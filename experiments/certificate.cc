#include "experiments/certificate.h"

namespace psring {

const char* ToString(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass:
      return "PASS";
    case Verdict::kFail:
      return "FAIL";
    case Verdict::kNotApplicable:
      return "not applicable";
  }
  return "";
}

}  // namespace psring
