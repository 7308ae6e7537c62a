// How a run's communication and its backward passes lie to each other. Pure.
#ifndef PSRING_EXPERIMENTS_COMMUNICATION_H_
#define PSRING_EXPERIMENTS_COMMUNICATION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "experiments/aligned_clocks.h"
#include "proto/record.pb.h"

namespace psring {

// A bucket's communication lasts from its launch until it is done.
struct BucketCommunication {
  // When it was launched, as a share of backward: 0 its begin, 1 its end. Of it and of
  // the next two, the mean over all ranks and steps.
  double launched = 0;
  double milliseconds = 0;
  double working_ms = 0;  // Part of it: it was added up, or applied.
  // What of the communication lies before the end of backward, as a share. None where
  // there is no communication.
  std::optional<double> overlap_ratio = std::nullopt;
  // The latest rank's ready time minus each rank's, mean over all ranks and steps.
  double arrival_skew_ms = 0;
};

// Over all buckets and steps. Of several workers who exchange each bucket with all.
struct ArrivalSkew {
  std::vector<double> worker_ms =
      {};                 // Mean of each rank's; the last to come has the least.
  double mean_ms = 0;     // Over all ranks.
  double max_ms = 0;      // The largest of a rank's in some bucket and step.
  int last = 0;           // Who was the latest most often,
  double last_share = 0;  // and in how many of all cases.
  double error_ms = 0;    // Of each, at most: clocks are aligned as well as that.
};

struct Communication {
  std::vector<BucketCommunication> buckets = {};
  double first_launch = 0;  // When bucket 0 was launched.
  // Of time in which some bucket of a worker communicates, as a share: hidden behind
  // backward. None where there is no such time.
  std::optional<double> overlap_ratio = std::nullopt;
  std::optional<ArrivalSkew> arrival_skew = std::nullopt;
};

// Is shown the steps of a run one after the other, and keeps sums.
class CommunicationMeter {
 public:
  // `awaits_all` as in WaitsOf (experiments/waits.h). `clocks` outlives the meter.
  CommunicationMeter(bool awaits_all, const AlignedClocks* clocks)
      : awaits_all_(awaits_all), clocks_(*clocks) {}

  // The same step of each rank, null where it is not known.
  void Add(std::span<const StepRecord* const> steps);

  Communication Figures() const;

 private:
  struct Sums {
    int64_t records = 0;
    double launched = 0;  // Shares of backward.
    int64_t communication_ns = 0;
    int64_t hidden_ns = 0;
    int64_t working_ns = 0;
    int64_t skew_ns = 0;
    int64_t skews = 0;
  };

  void AddOwn(const StepRecord& step);
  void AddSkew(std::span<const StepRecord* const> steps);

  const bool awaits_all_;
  const AlignedClocks& clocks_;
  std::vector<Sums> buckets_;
  int64_t communication_ns_ = 0;  // Of all ranks, where buckets overlap counted once.
  int64_t hidden_ns_ = 0;
  // By rank.
  std::vector<int64_t> skew_ns_;
  std::vector<int64_t> times_last_;
  int64_t skews_ = 0;  // Of each rank.
  int64_t most_skew_ns_ = 0;
};

}  // namespace psring

#endif  // PSRING_EXPERIMENTS_COMMUNICATION_H_
