#include "worker/pace.h"

#include <utility>

#include "common/status_macros.h"
#include "worker/draw.h"

namespace psring {
namespace {

// Backward's time is shared over tensors by size, from the last to the first.
Timetable TimetableOf(absl::Duration forward, absl::Duration backward,
                      const ParameterLayout& layout) {
  Timetable timetable;
  timetable.forward = forward;
  for (const Tensor& tensor : layout.tensors()) {
    const double done = static_cast<double>(layout.count() - tensor.range.begin) /
                        static_cast<double>(layout.count());
    timetable.ready.push_back(forward + backward * done);
  }
  return timetable;
}

double SlowWorkerFactor(const Inject& inject, int rank) {
  for (const SlowWorker& slow : inject.slow_worker()) {
    if (slow.rank() == rank) return slow.factor();
  }
  return 1;
}

}  // namespace

PaceSettings PaceOf(const Experiment& experiment, int rank,
                    const ParameterLayout& layout) {
  PaceSettings settings;
  settings.factor = SlowWorkerFactor(experiment.inject(), rank);
  switch (experiment.compute().kind_case()) {
    case Compute::kPadded: {
      const absl::Duration step =
          absl::Milliseconds(experiment.compute().padded().step_ms());
      // Backward computes two products for each of forward's: the gradient of the
      // weights and that of the layer's input.
      const absl::Duration forward = step / 3;
      settings.timetable = TimetableOf(forward, step - forward, layout);
      break;
    }
    case Compute::kEmulated: {
      const Compute::Emulated& emulated = experiment.compute().emulated();
      settings.timetable =
          TimetableOf(absl::Milliseconds(emulated.forward_ms()),
                      absl::Milliseconds(emulated.backward_ms()), layout);
      settings.timetable->jitter = emulated.jitter();
      settings.timetable->seed = Draw(experiment.training().seed(), rank);
      for (const RankFactor& own : emulated.rank_factor()) {
        if (own.rank() == rank) settings.factor *= own.factor();
      }
      break;
    }
    case Compute::kReal:
    case Compute::KIND_NOT_SET:
      break;
  }
  return settings;
}

Pace::Pace(PaceSettings settings, const TimeSource* time, Wait wait)
    : settings_(std::move(settings)), time_(time), wait_(std::move(wait)) {}

void Pace::Start(int64_t step, int64_t passes) {
  start_ = time_->Elapsed();
  waited_ = absl::ZeroDuration();
  late_ = false;
  factor_ = settings_.factor;
  part_ = 1 / static_cast<double>(passes);
  if (settings_.timetable) {
    const Timetable& timetable = *settings_.timetable;
    factor_ *= 1 + timetable.jitter * UniformDraw(timetable.seed, step);
  }
}

absl::Status Pace::EndForward() {
  return settings_.timetable ? ArriveAt(settings_.timetable->forward) : Stretch();
}

absl::Status Pace::BeforeReady(int tensor) {
  if (!settings_.timetable) return Stretch();
  const absl::Duration due = settings_.timetable->ready[tensor];
  RETURN_IF_ERROR(ArriveAt(due));
  if (tensor == 0) {
    late_ = time_->Elapsed() - start_ > due * factor_ * part_ + kTolerance;
  }
  return absl::OkStatus();
}

absl::Status Pace::ArriveAt(absl::Duration due) {
  return WaitFor(due * factor_ * part_ - (time_->Elapsed() - start_));
}

absl::Status Pace::Stretch() {
  if (factor_ <= 1) return absl::OkStatus();
  const absl::Duration since_start = time_->Elapsed() - start_;
  const absl::Duration computed = since_start - waited_;
  RETURN_IF_ERROR(WaitFor(computed * factor_ - since_start));
  waited_ += time_->Elapsed() - start_ - since_start;
  return absl::OkStatus();
}

absl::Status Pace::WaitFor(absl::Duration missing) {
  return missing > absl::ZeroDuration() ? wait_(missing) : absl::OkStatus();
}

}  // namespace psring
