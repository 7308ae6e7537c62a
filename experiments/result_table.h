// The results for people. Pure.
#ifndef PSRING_EXPERIMENTS_RESULT_TABLE_H_
#define PSRING_EXPERIMENTS_RESULT_TABLE_H_

#include <string>
#include <vector>

#include "experiments/arm_result.h"
#include "experiments/arm_runs.h"
#include "experiments/certificate.h"
#include "proto/experiment.pb.h"

namespace psring {

// What computing was, arms side by side, staleness, traffic by endpoint, certificates;
// with emulated hosts their links.
// `runs` are those of all arms and seeds, and not empty. Of an arm with several seeds,
// numbers are medians (parts of a step: means, so that they add up), those of interest
// with their range; traffic is that of its first seed, and a certificate fails where it
// fails for one.
std::string ResultTable(const Experiment& experiment, const std::vector<ArmResult>& runs);

// The same in parts, for who shows them in another way.

// Rows may be shorter than the header. The first column says what a row is, indented
// where it is a part of the one above.
struct ResultRows {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

// A column for each arm; `arms` are not empty.
ResultRows ArmRows(const Experiment& experiment, const std::vector<ArmRuns>& arms);

// Payload beside the formula. Where there are many, processes in a row that have the same
// numbers share one: "ring / worker 0 to 3". Without arms that ended early, whose
// processes have not reported theirs; no rows where there are no others.
ResultRows TrafficRows(const std::vector<ArmRuns>& arms);

struct CertificateLine {
  std::string what;  // "traffic"
  Verdict verdict = Verdict::kNotApplicable;
  std::string of;  // The arm, or several.
  std::string why;
};

// Of many arms, those that say the same share a line.
std::vector<CertificateLine> CertificateLines(const std::vector<ArmRuns>& arms);

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_RESULT_TABLE_H_
