// The parameter channel straight onto a shard of the same process: no network.
#ifndef PSRING_TESTS_IN_PROCESS_PARAMETER_CHANNEL_H_
#define PSRING_TESTS_IN_PROCESS_PARAMETER_CHANNEL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "common/mutex.h"
#include "common/wire_type.h"
#include "server/contribution_decoder.h"
#include "server/parameter_shard.h"
#include "worker/parameter_channel.h"

namespace psring {

// Requests other than parked pulls are done before the call returns. Nothing bounds a
// parked pull but Abort, of the channel or of the shard.
class InProcessParameterChannel final : public ParameterChannel {
 public:
  // `server` is for error messages.
  InProcessParameterChannel(int rank, int server, std::shared_ptr<ParameterShard> shard,
                            const WireType& wire = {});
  ~InProcessParameterChannel() override;

  void Initialize(const Slot& slot, std::span<const float> parameters,
                  Done done) override;
  void Pull(const Slot& slot, int64_t step, std::span<float> parameters,
            PullDone done) override;
  void Exchange(const Slot& slot, int64_t step, int64_t version, Bytes gradient,
                std::span<float> parameters, PullDone done) override;
  void Snapshot(const Slot& slot, int64_t step, std::span<float> parameters,
                SnapshotDone done) override;
  void Leave(Done done) override;
  void Abort(const absl::Status& reason) override;

 private:
  // As part of the request that `what` says.
  absl::Status Push(const PushInfo& push, Bytes gradient, const std::string& what);
  void Pull(const PullInfo& pull, std::span<float> parameters, const std::string& what,
            PullDone done);
  absl::Status aborted();
  absl::Status Named(const absl::Status& status, const std::string& what) const;

  const int rank_;
  const int server_;
  const std::shared_ptr<ParameterShard> shard_;
  const ContributionDecoder decoder_;

  Mutex mutex_;
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);  // OK until aborted.
  int64_t last_key_ ABSL_GUARDED_BY(mutex_) = 0;
  // Pulls whose callback has not returned. The ticket is not yet known while the shard
  // is being called.
  std::map<int64_t, PullTicket> pulls_ ABSL_GUARDED_BY(mutex_);
  CondVar idle_;
};

}  // namespace psring

#endif  // PSRING_TESTS_IN_PROCESS_PARAMETER_CHANNEL_H_
