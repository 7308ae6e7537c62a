// Runs the moves of one rank (ring/move.h) over its links.
#ifndef PSRING_RING_OPERATION_RUNNER_H_
#define PSRING_RING_OPERATION_RUNNER_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/link_counters.h"
#include "ring/elements.h"
#include "ring/move.h"
#include "ring/operation_header.h"
#include "ring/transport.h"

namespace psring {

// What a rank does in an operation. The moves' peers are ranks.
struct Operation {
  OperationHeader header;
  const MoveList& moves;
  Elements values;
  // What its payload counts as; of what is not a tensor's nothing is counted.
  std::optional<TrafficKind> traffic;
};

// One operation at a time, in the calling thread. Allocates nothing after construction
// unless an operation fails.
class OperationRunner {
 public:
  // Transport and counters outlive this.
  OperationRunner(Transport* transport, LinkCounters* counters,
                  absl::Duration stall_timeout, int most_moves);
  ~OperationRunner();

  // Returns when every move is done. Errors are the transport's (after which it is of no
  // use), and:
  //   kFailedPrecondition: a peer is at another operation.
  //   kUnavailable: a peer is stalled.
  // They say where this rank was, unless they are relayed. The caller aborts the
  // transport.
  absl::Status Run(const Operation& operation);

  // How long all operations so far have added values up.
  absl::Duration working() const { return absl::FromChrono(working_); }

 private:
  struct Flow;
  struct Staging;

  void Prepare();
  Flow& FlowTo(int peer);
  absl::Status MoveAll();
  absl::StatusOr<size_t> SendSome(Flow& flow);
  absl::StatusOr<size_t> ReceiveSome(Flow& flow);
  void Deal(Flow& flow, size_t received_bytes);
  void SkipTo(int& move, bool sends, int peer) const;
  size_t MovableBytes(int index) const;
  int64_t BeginByte(const Move& move) const { return move.range.begin * element_bytes_; }
  int64_t ByteCount(const Move& move) const { return move.range.count * element_bytes_; }
  bool HeaderMayGo(const Flow& flow) const;
  std::span<const Interest> GatherInterests();
  std::vector<int> Awaited(bool silent) const;
  absl::Status StalledError(const std::vector<int>& peers) const;
  absl::Status Explain(const absl::Status& status) const;

  Transport* const transport_;
  LinkCounters* const counters_;
  const absl::Duration stall_timeout_;
  const std::unique_ptr<Staging> staging_;

  const Operation* operation_ = nullptr;  // While it runs.
  int64_t element_bytes_ = 0;             // Of it.
  std::vector<int64_t> done_bytes_;       // By move.
  std::vector<Flow> flows_;               // One per peer of the operation.
  std::vector<Interest> interests_;
  std::chrono::nanoseconds working_ = {};
};

}  // namespace psring

#endif  // PSRING_RING_OPERATION_RUNNER_H_
