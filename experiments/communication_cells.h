// What the result table says of an arm's communication. Pure.
#ifndef PSRING_EXPERIMENTS_COMMUNICATION_CELLS_H_
#define PSRING_EXPERIMENTS_COMMUNICATION_CELLS_H_

#include <string>

#include "experiments/arm_runs.h"

namespace psring {

// Each over all runs of the arm; "-" where there is no such thing.
std::string PeerLateCell(const ArmRuns& arm);
std::string WaitedForCell(const ArmRuns& arm);  // Whom for longest.
std::string FirstLaunchCell(const ArmRuns& arm);
std::string OverlapRatioCell(const ArmRuns& arm);
std::string ArrivalSkewCell(const ArmRuns& arm);
std::string LastToBeReadyCell(const ArmRuns& arm);  // Of the run in which it is clearest.

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_COMMUNICATION_CELLS_H_
