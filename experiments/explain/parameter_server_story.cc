#include "experiments/explain/parameter_server_story.h"

#include <cmath>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/computed_step_constants.h"
#include "common/errors.h"
#include "common/layout.h"
#include "common/mutex.h"
#include "common/slot_plan.h"
#include "common/status_macros.h"
#include "common/time_source.h"
#include "server/parameter_service.h"
#include "server/parameter_shard.h"
#include "server/policies.h"
#include "worker/grpc_parameter_channel.h"

namespace psring {
namespace {

constexpr char kJob[] = "explain";
constexpr int64_t kFloatBytes = sizeof(float);

// The ranks that have their new parameters, in order. Any thread.
class Answers {
 public:
  void Add(int rank) {
    MutexLock lock(&mutex_);
    ranks_.push_back(rank);
  }
  std::vector<int> ranks() const {
    MutexLock lock(&mutex_);
    return ranks_;
  }

 private:
  mutable Mutex mutex_;
  std::vector<int> ranks_ ABSL_GUARDED_BY(mutex_);
};

// A step of all workers, each of which has one slot, the whole of the parameters.
class Step {
 public:
  Step(int workers, int64_t count)
      : workers_(workers), count_(count), parameters_(workers), gradients_(workers) {
    ParameterLayout layout;
    layout.Add("parameters", {count});
    buckets_ = PlanBuckets(layout, count * kFloatBytes, count * kFloatBytes);
    slots_ = PlanStripedSlots(buckets_, /*servers=*/1);
    for (int rank = 0; rank < workers; ++rank) {
      parameters_[rank].resize(count);
      for (int64_t i = 0; i < count; ++i) {
        gradients_[rank].push_back(StoryInput(rank, i));
      }
    }
  }

  absl::Status Run() {
    Optimizer optimizer;
    optimizer.mutable_sgd()->set_learning_rate(workers_);
    ParameterServerMode mode;
    mode.mutable_sync();
    ASSIGN_OR_RETURN(auto policy, MakePolicy(mode, workers_));
    ParameterShard::Options options = ParameterShard::OptionsFor(buckets_, slots_, 0);
    options.workers = workers_;
    options.optimizer = optimizer;
    options.constants = std::make_shared<ComputedStepConstants>(optimizer, /*steps=*/1);
    options.time = &time_;
    shard_ = std::make_shared<ParameterShard>(std::move(options), std::move(policy));
    ParameterServerHost host({.job = kJob}, shard_);
    ASSIGN_OR_RETURN(const int port, host.Start("127.0.0.1:0"));
    std::vector<std::unique_ptr<ParameterChannel>> channels;
    for (int rank = 0; rank < workers_; ++rank) {
      channels.push_back(NewGrpcParameterChannel(
          {.job = kJob, .rank = rank, .address = absl::StrCat("127.0.0.1:", port)}));
    }
    RETURN_IF_ERROR(Initialize(*channels[0]));
    return ExchangeAll(channels);
  }

  const std::vector<float>& gradient(int rank) const { return gradients_[rank]; }
  const std::vector<float>& parameters(int rank) const { return parameters_[rank]; }
  std::vector<int> answers() const { return answers_.ranks(); }
  ExchangeTraffic server_traffic() const { return shard_->traffic(); }

 private:
  const Slot& slot() const { return slots_.slots[0]; }

  // Channels do every request within a deadline of theirs, so waiting for it ends.
  absl::Status Initialize(ParameterChannel& channel) {
    std::promise<absl::Status> done;
    const std::vector<float> zeros(count_);
    channel.Initialize(slot(), zeros,
                       [&](const absl::Status& status) { done.set_value(status); });
    return done.get_future().get();
  }

  // Everyone hands in its gradients and gets the new parameters back.
  absl::Status ExchangeAll(std::vector<std::unique_ptr<ParameterChannel>>& channels) {
    std::vector<std::promise<absl::Status>> done(workers_);
    for (int rank = 0; rank < workers_; ++rank) {
      channels[rank]->Exchange(
          slot(), /*step=*/0, /*version=*/0, std::as_bytes(std::span(gradients_[rank])),
          parameters_[rank], [this, rank, &done](const absl::StatusOr<Pulled>& pulled) {
            answers_.Add(rank);
            done[rank].set_value(pulled.status());
          });
    }
    return FirstError(done);
  }

  // Once all are done.
  static absl::Status FirstError(std::vector<std::promise<absl::Status>>& done) {
    absl::Status first;
    for (std::promise<absl::Status>& promise : done) {
      const absl::Status status = promise.get_future().get();
      if (first.ok()) first = status;
    }
    return first;
  }

  const int workers_;
  const int64_t count_;
  const RealTime time_;
  BucketPlan buckets_;
  SlotPlan slots_;
  std::shared_ptr<ParameterShard> shard_;
  std::vector<std::vector<float>> parameters_;  // By rank, as pulled.
  std::vector<std::vector<float>> gradients_;
  Answers answers_;
};

absl::Status Check(const Step& step, int workers, int64_t count) {
  for (int rank = 0; rank < workers; ++rank) {
    for (int64_t i = 0; i < count; ++i) {
      float sum = 0;
      for (int other = 0; other < workers; ++other) sum += StoryInput(other, i);
      // The sum is multiplied by float(1)/N and by N, and rounded each time.
      const float parameter = step.parameters(rank)[i];
      if (std::abs(parameter + sum) > 3e-7f * sum || parameter != step.parameters(0)[i]) {
        return CheckFailedError(
            absl::StrCat("worker ", rank, " has a wrong parameter ", i, ": ", parameter));
      }
    }
  }
  const ExchangeTraffic traffic = step.server_traffic();
  const int64_t formula = workers * count * kFloatBytes;
  if (traffic.payload_in != formula || traffic.payload_out != formula) {
    return CheckFailedError(absl::StrCat("the server took ", traffic.payload_in,
                                         " and gave ", traffic.payload_out,
                                         " bytes instead of ", formula));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Story> TellParameterServer(int workers, int64_t count) {
  Step observed(workers, count);
  RETURN_IF_ERROR(observed.Run());
  RETURN_IF_ERROR(Check(observed, workers, count));

  Story story;
  story.title =
      absl::StrCat("A synchronous step with one parameter server, ", workers,
                   " workers, ", CountOfElements(count), ", over gRPC on this machine");
  story.introduction = {
      "Every worker starts with a gradient. The digit tells the element, its place the "
      "worker, so that 66 is what workers 0 and 1 add up to for an element with digit 6. "
      "A worker's push and pull are one call, an exchange: its request carries the "
      "gradient, and the answer to it the new parameters."};
  for (int rank = 0; rank < workers; ++rank) {
    story.endpoints.push_back(absl::StrCat("worker ", rank));
  }
  story.endpoints.push_back("server");
  story.workers = workers;
  story.count = count;
  StoryStep push{.title = "push, every worker's request carries its gradient",
                 .transfers = {},
                 .notes = {}};
  StoryStep pull{.title = "pull, every answer carries the new parameters",
                 .transfers = {},
                 .notes = {}};
  for (int rank = 0; rank < workers; ++rank) {
    push.transfers.push_back({.from = rank,
                              .to = workers,
                              .range = {0, count},
                              .sent = observed.gradient(rank),
                              .then = {}});
    pull.transfers.push_back({.from = workers,
                              .to = rank,
                              .range = {0, count},
                              .sent = observed.parameters(rank),
                              .then = observed.parameters(rank)});
  }
  push.notes.push_back(
      "With the last one the round is complete: the server adds the gradients in the "
      "order of a ring, whatever order they came in, and runs the optimizer once.");
  push.notes.push_back(
      absl::StrCat("Here it is plain SGD from zeros with learning rate ", workers,
                   ", so that the parameters become minus the sum of the gradients."));
  pull.notes.push_back(absl::StrCat("The answers came in the order of workers ",
                                    absl::StrJoin(observed.answers(), ", "), "."));
  pull.notes.push_back(
      "Every worker has the same parameters, bit for bit: those of the next step.");
  story.steps = {std::move(push), std::move(pull)};
  return story;
}

}  // namespace psring
