#include "experiments/probe/arithmetic_rates.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/arithmetic.h"
#include "common/computed_step_constants.h"
#include "common/job_plan.h"
#include "common/processor_time.h"
#include "common/status_macros.h"
#include "common/time_source.h"
#include "server/parameter_shard.h"
#include "server/policies.h"

namespace psring {
namespace {

// More than caches hold, as a model's gradients are: a rank's, or those of all workers.
constexpr int64_t kMostBytes = 64 << 20;
// What a rank has received when it adds: what has just come is still in the cache.
constexpr size_t kReceivedCount = 16 << 10;
// Workers whose gradients lie in different places.
constexpr int kMostGradients = 16;
// No measurement makes so many.
constexpr int64_t kUpdates = 1'000'000'000;

using Floats = std::shared_ptr<const std::vector<float>>;

// One worker's step on one slot, as far as the server has to do with it.
absl::Status PullAndPush(ParameterShard& shard, const Slot& slot, int rank, int64_t step,
                         const Floats& gradient) {
  std::optional<absl::StatusOr<int64_t>> version;
  shard.Pull({.rank = rank, .step = step, .slot = slot.index},
             [&version](const absl::StatusOr<PullAnswer>& answer) {
               if (answer.ok()) {
                 version.emplace(answer->parameters.version);
               } else {
                 version.emplace(answer.status());
               }
             });
  if (!version) return absl::InternalError("a pull waits for what comes after it");
  RETURN_IF_ERROR(version->status());
  const std::span<const float> values(gradient->data(),
                                      static_cast<size_t>(slot.range.count));
  return shard.Push(
      {.rank = rank, .step = step, .slot = slot.index, .version = **version},
      {.gradient = values, .owner = gradient});
}

}  // namespace

double MeasureAddRate(absl::Duration least) {
  std::vector<float> own(kMostBytes / sizeof(float), 1.0f);
  const std::vector<float> received(kReceivedCount, 1.0f);
  const auto pass = [&] {
    for (std::span<float> rest(own); !rest.empty(); rest = rest.subspan(kReceivedCount)) {
      AddInPlace(rest.first(kReceivedCount), received);
    }
  };
  pass();  // Memory that has not been used yet costs more.
  const absl::Duration start = ThreadProcessorTime();
  int64_t bytes = 0;
  absl::Duration took = absl::ZeroDuration();
  while (bytes == 0 || took < least) {
    pass();
    bytes += kMostBytes;
    took = ThreadProcessorTime() - start;
  }
  return static_cast<double>(bytes) / absl::ToDoubleSeconds(took);
}

absl::StatusOr<double> MeasureApplyRate(const JobSpec& spec, absl::Duration least) {
  const JobPlan plan = PlanJob(spec);
  ParameterShard::Options options =
      ParameterShard::OptionsFor(plan.buckets, plan.slots, /*server=*/0);
  int64_t slot_bytes = 0;
  int64_t largest = 0;
  size_t slots = 0;
  while (slots < options.slots.size() && slot_bytes * spec.workers() < kMostBytes) {
    const int64_t count = options.slots[slots++].range.count;
    slot_bytes += count * int64_t{sizeof(float)};
    largest = std::max(largest, count);
  }
  options.slots.resize(slots);
  const RealTime time;
  const ParameterServerMode& mode = spec.arm().parameter_server();
  options.workers = spec.workers();
  options.order = mode.sync().order();
  options.ring_order = RingOrderOf(spec);
  options.stale_updates = mode.stale_updates();
  options.optimizer = spec.experiment().training().optimizer();
  options.constants =
      std::make_shared<ComputedStepConstants>(options.optimizer, kUpdates);
  options.time = &time;
  const std::vector<Slot> all = options.slots;
  ASSIGN_OR_RETURN(auto policy, MakePolicy(mode, spec.workers()));
  ParameterShard shard(std::move(options), std::move(policy));

  std::vector<Floats> gradients;
  for (int i = 0; i < std::min(spec.workers(), kMostGradients); ++i) {
    gradients.push_back(
        std::make_shared<const std::vector<float>>(static_cast<size_t>(largest), 1e-6f));
  }
  for (const Slot& slot : all) {
    RETURN_IF_ERROR(shard.Initialize(
        slot.index, std::span<const float>(gradients.front()->data(),
                                           static_cast<size_t>(slot.range.count))));
  }
  // The first step is for memory that has not been used yet.
  absl::Duration start = absl::ZeroDuration();
  absl::Duration took = absl::ZeroDuration();
  int64_t bytes = 0;
  for (int64_t step = 0; step < 2 || took < least; ++step) {
    if (step == 1) {
      start = ThreadProcessorTime();
      bytes = 0;
    }
    for (const Slot& slot : all) {
      for (int rank = 0; rank < spec.workers(); ++rank) {
        RETURN_IF_ERROR(
            PullAndPush(shard, slot, rank, step, gradients[rank % gradients.size()]));
      }
      bytes += slot.range.count * int64_t{sizeof(float)} * spec.workers();
    }
    took = ThreadProcessorTime() - start;
  }
  return static_cast<double>(bytes) / absl::ToDoubleSeconds(took);
}

}  // namespace psring
