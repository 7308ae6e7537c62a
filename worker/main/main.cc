// worker: one worker process of a job.
#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/cpu_device.h"
#include "common/due.h"
#include "common/job_plan.h"
#include "common/member_process.h"
#include "common/status_macros.h"
#include "common/time_source.h"
#include "glog/logging.h"
#include "worker/data_set.h"
#include "worker/evaluate.h"
#include "worker/main/exchange_factory.h"
#include "worker/mlp.h"
#include "worker/sampler.h"
#include "worker/slowdown.h"
#include "worker/stalling_model.h"
#include "worker/trainer.h"

namespace psring {
namespace {

constexpr int64_t kEvaluationRows = 1000;

double SlowdownFactor(const Experiment& experiment, int rank) {
  for (const SlowWorker& slow : experiment.inject().slow_worker()) {
    if (slow.rank() == rank) return slow.factor();
  }
  return 1;
}

std::vector<int64_t> Widths(const JobSpec& spec, const DataSetShape& data) {
  std::vector<int64_t> widths = {data.features};
  for (const int64_t width : spec.experiment().model().mlp().hidden()) {
    widths.push_back(width);
  }
  widths.push_back(data.classes);
  return widths;
}

// The step in which this rank is to get stuck, if any.
std::optional<int64_t> StallStep(const Experiment& experiment, int rank) {
  for (const StallWorker& stall : experiment.inject().stall_worker()) {
    if (stall.rank() == rank) return stall.step();
  }
  return std::nullopt;
}

// The model must be the one that the others plan with.
absl::Status CheckLayout(const ParameterLayout& model, const ParameterLayout& job) {
  if (model.count() == job.count() && model.tensors().size() == job.tensors().size()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("this worker's model has ", model.tensors().size(), " tensors and ",
                   model.count(), " parameters, the job's ", job.tensors().size(),
                   " and ", job.count(), ": are the data sets the same?"));
}

// One worker, from the data to the last snapshot's accuracy. Members in the order in
// which they depend on each other.
class Worker {
 public:
  Worker(const Endpoint& endpoint, int rank, CoordinatorClient& client)
      : endpoint_(endpoint),
        rank_(rank),
        client_(client),
        spec_(client.spec()),
        plan_(PlanJob(spec_)),
        device_(MakeCpuDevice()) {}

  absl::Status Run() {
    RETURN_IF_ERROR(Load());
    RETURN_IF_ERROR(WarmUp());
    if (const auto step = StallStep(spec_.experiment(), rank_)) {
      model_ =
          std::make_unique<StallingModel>(std::move(model_), *step, &client_.aborts());
    }
    ASSIGN_OR_RETURN(peers_, MakeExchange(endpoint_, rank_, plan_, &time_, client_));
    abort_ = std::make_unique<AbortSource::Registration>(
        &client_.aborts(),
        [this](const absl::Status& reason) { peers_.exchange->Abort(reason); });
    // Not the other way round: where contributions take turns, some workers get their
    // first parameters only when others have made a step.
    RETURN_IF_ERROR(client_.Barrier("start"));
    time_.Start();
    RETURN_IF_ERROR(peers_.exchange->Bind(parameters_.span(), gradients_.span()));
    RETURN_IF_ERROR(Train());
    RETURN_IF_ERROR(client_.BarrierWithoutDeadline("trained"));
    RETURN_IF_ERROR(EvaluateSnapshots());
    ReportTraffic();
    return client_.BarrierWithoutDeadline("evaluated");
  }

 private:
  absl::Status Load() {
    ASSIGN_OR_RETURN(
        DataSet data,
        LoadFashionMnist(spec_.experiment().data().fashion_mnist().directory()));
    data_ = std::make_unique<DataSet>(std::move(data));
    rows_ = PartitionRange(spec_.experiment().training().global_batch(), spec_.workers(),
                           rank_)
                .count;
    ASSIGN_OR_RETURN(model_, MakeMlp(device_.get(), Widths(spec_, data_->shape), rows_));
    RETURN_IF_ERROR(CheckLayout(model_->layout(), plan_.layout));
    ASSIGN_OR_RETURN(parameters_, device_->Allocate(plan_.layout.count()));
    ASSIGN_OR_RETURN(gradients_, device_->Allocate(plan_.layout.count()));
    // The other workers get worker 0's parameters when the exchange is bound.
    if (rank_ == 0) {
      InitializeParameters(plan_.layout, spec_.experiment().training().seed(),
                           parameters_.span().host());
    }
    model_->Bind(parameters_.span(), gradients_.span());
    return absl::OkStatus();
  }

  // Libraries compile their kernels at first use; that is no part of training.
  absl::Status WarmUp() {
    ASSIGN_OR_RETURN(const DeviceBuffer zeros,
                     device_->Allocate(rows_ * data_->shape.features));
    const std::vector<int32_t> labels(rows_);
    RETURN_IF_ERROR(
        model_->Forward({.rows = rows_, .features = zeros.span(), .labels = labels})
            .status());
    return model_->Backward([](int) {});
  }

  absl::Status Train() {
    const Training& training = spec_.experiment().training();
    Sampler sampler(data_->shape.train_count, training.global_batch(), training.seed());
    Slowdown slowdown(SlowdownFactor(spec_.experiment(), rank_), time_,
                      [](absl::Duration missing) { absl::SleepFor(missing); });
    Trainer trainer(
        {.rank = rank_,
         .workers = spec_.workers(),
         .steps = peers_.steps,
         .non_finite = training.non_finite(),
         .digest_interval = training.digest_interval(),
         .snapshot_interval = training.evaluation_interval(),
         .take_snapshots = rank_ == 0 && peers_.read_snapshot == nullptr},
        {.device = device_.get(),
         .model = model_.get(),
         .exchange = peers_.exchange.get(),
         .buckets = &plan_.buckets,
         .data = data_.get(),
         .sampler = &sampler,
         .time = &time_,
         .slowdown = &slowdown,
         .parameters = parameters_.span(),
         .gradients = gradients_.span()},
        [this](const StepRecord& step) {
          client_.Report([&](RecordBatch& batch) { *batch.add_steps() = step; });
        });
    client_.SetActivity([&] { return ActivityOf(trainer.progress()); });
    const absl::Status trained = trainer.Run();
    client_.SetActivity(nullptr);
    RETURN_IF_ERROR(trained);
    own_snapshots_ = trainer.TakeSnapshots();
    return absl::OkStatus();
  }

  void ReportTraffic() {
    Member member;
    member.set_role(WORKER);
    member.set_rank(rank_);
    client_.Report([&](RecordBatch& batch) {
      *batch.add_traffic() = TrafficOf(member, peers_.exchange->traffic());
    });
  }

  Activity ActivityOf(const TrainingProgress& progress) const {
    Activity activity;
    activity.set_under_way(true);
    activity.set_step(progress.step);
    activity.set_phase(ToString(progress.phase));
    // Bytes count as progress too: a bucket may be long on a slow link.
    const ExchangeTraffic traffic = peers_.exchange->traffic();
    activity.set_progress(progress.advances + traffic.payload_in + traffic.payload_out);
    // Who computes holds others up, whatever its exchange waits for meanwhile.
    if (progress.phase == TrainingPhase::kWaiting)
      activity.set_awaiting(peers_.exchange->Awaited());
    return activity;
  }

  // One after the other, so that no more than one is fetched and kept for it.
  absl::Status EvaluateSnapshots() {
    if (rank_ != 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(
        const std::unique_ptr<Model> model,
        MakeMlp(device_.get(), Widths(spec_, data_->shape), kEvaluationRows));
    const SnapshotReader read =
        peers_.read_snapshot != nullptr ? peers_.read_snapshot : OwnSnapshots();
    std::vector<float> parameters(plan_.layout.count());
    const int64_t interval = spec_.experiment().training().evaluation_interval();
    for (int64_t step = 0; step < spec_.steps();) {
      step = NextDue(step, spec_.steps(), interval);
      RETURN_IF_ERROR(client_.aborts().reason());
      ASSIGN_OR_RETURN(const EvaluationRecord origin, read(step, parameters));
      ASSIGN_OR_RETURN(EvaluationRecord evaluation,
                       Evaluate(device_.get(), model.get(), kEvaluationRows, data_->test,
                                data_->shape.features, parameters));
      evaluation.MergeFrom(origin);
      client_.Report([&](RecordBatch& batch) { *batch.add_evaluations() = evaluation; });
    }
    return absl::OkStatus();
  }

  // Reads what this worker has kept itself.
  SnapshotReader OwnSnapshots() const {
    return [this](int64_t step,
                  std::span<float> parameters) -> absl::StatusOr<EvaluationRecord> {
      const auto found =
          std::find_if(own_snapshots_.begin(), own_snapshots_.end(),
                       [step](const Snapshot& own) { return own.step == step; });
      CHECK(found != own_snapshots_.end()) << "no snapshot of step " << step;
      std::copy(found->parameters.begin(), found->parameters.end(), parameters.begin());
      EvaluationRecord record;
      record.set_step(step);
      return record;
    };
  }

  const Endpoint& endpoint_;
  const int rank_;
  CoordinatorClient& client_;
  const JobSpec spec_;
  const JobPlan plan_;
  TimeSinceStart time_;  // From the barrier on.
  std::unique_ptr<DataSet> data_;
  int64_t rows_ = 0;  // This worker's part of the global batch.
  std::unique_ptr<Device> device_;
  DeviceBuffer parameters_;
  DeviceBuffer gradients_;
  std::unique_ptr<Model> model_;
  WorkerExchange peers_;
  std::unique_ptr<AbortSource::Registration> abort_;
  std::vector<Snapshot> own_snapshots_;
};

absl::Status Run(const Endpoint& endpoint, const Member& member,
                 CoordinatorClient& client) {
  Worker worker(endpoint, member.rank(), client);
  return client.Leave(worker.Run());
}

}  // namespace
}  // namespace psring

int main(int argc, char** argv) {
  return psring::RunMember(argc, argv, psring::WORKER,
                           "A worker: computes gradients on its part of each batch and "
                           "exchanges them for updated parameters.",
                           psring::Run);
}
