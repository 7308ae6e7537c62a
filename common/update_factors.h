// From an optimizer's settings to what its updates take: shared by whatever applies them.
#ifndef PSRING_COMMON_UPDATE_FACTORS_H_
#define PSRING_COMMON_UPDATE_FACTORS_H_

#include "common/step_constants.h"
#include "common/update_rule.h"
#include "proto/experiment.pb.h"

namespace psring {

// `settings` have a kind, and no default is left to be filled in.

UpdateRule RuleOf(const Optimizer& settings);

// `constants` are those of the number of updates before this one.
UpdateFactors FactorsOf(const Optimizer& settings, const StepConstants& constants);

}  // namespace psring

#endif  // PSRING_COMMON_UPDATE_FACTORS_H_
