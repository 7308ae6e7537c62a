// A parameter channel to which happens what happens to messages: they come twice or late,
// answers are lost, and processes are replaced.
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

// What happens to an exchange. Where a worker gets two answers to it, it goes on with the
// newer parameters: those are what the server takes it to have.
enum class ExchangeFault {
  kNone,
  kSentTwice,
  // The server has answered it, but nobody hears of that, so it is sent again.
  kAnswerLost,
  // The slot's exchange before it comes once more behind it.
  kOneBeforeComesAgain,
  // The worker is another process from here on, which first sends the exchange before
  // again and goes on from its answer.
  kFromAReplacement,
};

// Passes everything on, with the fault at exchange `at` >= 1 of each slot, counted from
// 0.
//
// As ParameterChannel, but one thread makes the requests, and a slot's exchange comes
// when the one before is done.
class FaultyParameterChannel final : public ParameterChannel {
 public:
  // Makes the replacement's channel.
  using Replace = std::function<std::unique_ptr<ParameterChannel>()>;

  FaultyParameterChannel(std::unique_ptr<ParameterChannel> channel, ExchangeFault fault,
                         int64_t at, Replace replace);

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
  // What can be sent again.
  struct Contribution {
    Slot slot;
    int64_t step = 0;
    int64_t version = 0;
    std::vector<std::byte> gradient;
  };
  using ContributionPtr = std::shared_ptr<const Contribution>;
  // Of what was sent again: what came with the parameters, and they.
  using AgainDone = std::function<void(const absl::StatusOr<Pulled>& pulled,
                                       std::span<const float> parameters)>;

  ParameterChannel& channel();
  void SendAgain(const ContributionPtr& contribution, AgainDone done);
  void ReplaceProcess();

  const ExchangeFault fault_;
  const int64_t at_;
  const Replace replace_;

  // The requesting thread's, by slot.
  std::map<int, int64_t> exchanges_;
  std::map<int, ContributionPtr> last_;

  Mutex mutex_;
  absl::Status aborted_ ABSL_GUARDED_BY(mutex_);  // OK until aborted.
  // The process's so far; the last one is in use. Last, so that they end first.
  std::vector<std::unique_ptr<ParameterChannel>> channels_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace psring

#endif  // PSRING_TESTS_FAULTY_PARAMETER_CHANNEL_H_
