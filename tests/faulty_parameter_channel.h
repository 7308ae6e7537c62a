// A parameter channel to which happens what happens to messages: they come twice, late or
// in another order, and processes are replaced.
#ifndef PSRING_TESTS_FAULTY_PARAMETER_CHANNEL_H_
#define PSRING_TESTS_FAULTY_PARAMETER_CHANNEL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "common/mutex.h"
#include "worker/parameter_channel.h"

namespace psring {

// What happens to a push. Each leaves the worker with the answers that it would have got
// without.
enum class PushFault {
  kNone,
  kSentTwice,
  // The server has taken it, but nobody hears of that, so it is sent again.
  kAnswerLost,
  // The pull behind it comes before it.
  kOvertakenByItsPull,
  // The slot's push before it comes once more behind it.
  kOneBeforeComesAgain,
  // The worker is another process from here on, which first sends the push before again.
  kFromAReplacement,
};

// Passes everything on, with the fault at push `at` >= 1 of each slot, counted from 0.
//
// As ParameterChannel, but one thread makes the requests, a push is followed by the
// slot's pull, and neither comes while one of the slot before is under way.
class FaultyParameterChannel final : public ParameterChannel {
 public:
  // Makes the replacement's channel.
  using Replace = std::function<std::unique_ptr<ParameterChannel>()>;

  FaultyParameterChannel(std::unique_ptr<ParameterChannel> channel, PushFault fault,
                         int64_t at, Replace replace);

  void Initialize(const Slot& slot, std::span<const float> parameters,
                  Done done) override;
  void Push(const Slot& slot, int64_t step, int64_t version,
            std::span<const float> gradient, Done done) override;
  void Pull(const Slot& slot, int64_t step, std::span<float> parameters,
            PullDone done) override;
  void Snapshot(const Slot& slot, int64_t step, std::span<float> parameters,
                SnapshotDone done) override;
  void Leave(Done done) override;
  void Abort(const absl::Status& reason) override;

 private:
  // A push that can be sent again.
  struct Sent {
    Slot slot;
    int64_t step = 0;
    int64_t version = 0;
    std::vector<float> gradient;
  };
  ParameterChannel& channel();
  // The slot's push before this one, once more, from memory of its own.
  void SendAgain(const Slot& slot, Done done);

  const PushFault fault_;
  const int64_t at_;
  const Replace replace_;

  // The requesting thread's, by slot.
  std::map<int, int64_t> pushes_;
  std::map<int, std::shared_ptr<const Sent>> last_;
  std::map<int, std::function<void()>> overtaken_;  // Pushes that wait for their pull.

  Mutex mutex_;
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);  // OK until aborted.
  // The process's so far; the last one is in use. Last, so that they end first.
  std::vector<std::unique_ptr<ParameterChannel>> channels_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace psring

#endif  // PSRING_TESTS_FAULTY_PARAMETER_CHANNEL_H_
