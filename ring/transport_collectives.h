// Collectives over a transport, in any of the algorithms.
#ifndef PSRING_RING_TRANSPORT_COLLECTIVES_H_
#define PSRING_RING_TRANSPORT_COLLECTIVES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/device_span.h"
#include "common/link_counters.h"
#include "common/ring_order.h"
#include "ring/algorithm_by_size.h"
#include "ring/collectives.h"
#include "ring/operation_header.h"
#include "ring/operation_runner.h"
#include "ring/transport.h"

namespace psring {

struct CollectiveOptions {
  // Of the ranks; positions in it take the places of ring/algorithm.h.
  RingOrder order;
  // Decides by the bytes of all values of an operation, whatever its kind. The same on
  // all ranks.
  AlgorithmBySize algorithm = RingMode::RING;
  // How long a rank inside an operation goes without moving a byte before it gives its
  // peers up. Longer than the slowest rank may lag behind the fastest.
  absl::Duration stall_timeout = absl::Seconds(60);
  // The same on all ranks of a job and different for others (common/job_plan.h).
  uint64_t job_fingerprint = 0;
};

// The ranks that `rank` needs links to, by whichever algorithm, ascending.
std::vector<int> LinkedRanks(const CollectiveOptions& options, int rank);

// Works in the calling thread, and allocates nothing after construction unless an
// operation fails.
//
// Invariants, each with a test of its name:
//  1. FoldOrder: an element of chunk c is ((x_{c+1} + x_{c+2}) + ...) + x_c, by position,
//     in a sum by RING; by GATHER_BROADCAST it is ((x_0 + x_1) + ...) + x_{N-1}. In every
//     algorithm, and where it goes by size, the order depends on the count, N and the
//     element alone.
//  2. PayloadIsTheFormula: payload bytes are PayloadBytes exactly.
//  3. NeverAWrongSum: ranks at different operations all get an error with both sides. Of
//     ranks whose counts call for different algorithms it may be that they never meet;
//     then the error is that of a stalled rank.
//  4. NobodyHangs: a rank that fails aborts its transport, so that all others fail, with
//     its reason.
class TransportCollectives final : public Collectives {
 public:
  // `transport` is this rank's, linked at least to LinkedRanks, and null only for one
  // rank, where there is nothing to do.
  TransportCollectives(int rank, std::unique_ptr<Transport> transport,
                       CollectiveOptions options);

  absl::Status AllReduce(OperationTag tag, Elements values) override;
  absl::Status ReduceScatter(OperationTag tag, Elements values) override;
  absl::Status AllGather(OperationTag tag, Elements values) override;
  absl::Status Broadcast(DeviceSpan values) override;
  absl::Status Barrier() override;

  void Abort(absl::Status reason) override;
  ExchangeTraffic traffic() const override;
  absl::Duration working() const override {
    return runner_ == nullptr ? absl::ZeroDuration() : runner_->working();
  }
  std::string Awaited() const override;

  // Null for one rank.
  const Transport* transport() const { return transport_.get(); }

 private:
  absl::Status Run(OperationKind kind, OperationTag tag, Elements values,
                   std::optional<TrafficKind> traffic);

  const int position_;
  const CollectiveOptions options_;
  LinkCounters counters_;
  const std::unique_ptr<Transport> transport_;
  const std::unique_ptr<OperationRunner> runner_;  // Null for one rank.

  MoveList moves_;  // Of one operation; its memory is used again.
  std::vector<float> barrier_values_;
  uint64_t sequence_ = 0;  // Of the next operation.
  absl::Status failure_;   // What every later call returns.
};

}  // namespace psring

#endif  // PSRING_RING_TRANSPORT_COLLECTIVES_H_
