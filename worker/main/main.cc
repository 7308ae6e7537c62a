// worker: one worker process of a job.
#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/checkpoint.h"
#include "common/contributors.h"
#include "common/cpu_device.h"
#include "common/due.h"
#include "common/job_plan.h"
#include "common/member_process.h"
#include "common/memory_gauge.h"
#include "common/memory_report.h"
#include "common/process_metrics.h"
#include "common/status_macros.h"
#include "common/time_source.h"
#include "common/tracked_buffer.h"
#include "glog/logging.h"
#include "worker/bit_flipping_exchange.h"
#include "worker/data_set.h"
#include "worker/evaluate.h"
#include "worker/main/exchange_factory.h"
#include "worker/main/worker_checkpoint.h"
#include "worker/mlp.h"
#include "worker/pace.h"
#include "worker/sampler.h"
#include "worker/stalling_model.h"
#include "worker/step_gate.h"
#include "worker/synthetic_model.h"
#include "worker/trainer.h"

namespace psring {
namespace {

constexpr int64_t kEvaluationRows = 1000;

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

std::vector<FlipBit> FlipsOf(const Experiment& experiment, int rank) {
  std::vector<FlipBit> flips;
  for (const FlipBit& flip : experiment.inject().flip_bit()) {
    if (flip.rank() == rank) flips.push_back(flip);
  }
  return flips;
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

// Which workers have samples in a step must be the same everywhere.
absl::Status CheckEpochs(int64_t samples, const JobSpec& job) {
  const Training& training = job.experiment().training();
  if (samples >= training.global_batch()) {
    const EpochPlan epoch = PlanEpoch(samples, training.global_batch(), job.workers(),
                                      training.uneven() == Training::JOIN);
    if (epoch.steps == job.steps_per_epoch() &&
        epoch.last_contributors == job.last_contributors()) {
      return absl::OkStatus();
    }
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "this worker has ", samples, " training samples, and the job's epochs ", "are of ",
      job.steps_per_epoch(), " steps: are the data sets the same?"));
}

// One worker, from the data to the last snapshot's accuracy. Members in the order in
// which they depend on each other.
class Worker {
 public:
  Worker(const Endpoint& endpoint, const Member& member, CoordinatorClient& client)
      : endpoint_(endpoint),
        member_(member),
        rank_(member.rank()),
        client_(client),
        spec_(client.spec()),
        plan_(PlanJob(spec_)),
        device_(MakeCpuDevice()) {}

  absl::Status Run() {
    if (spec_.has_restored()) {
      ASSIGN_OR_RETURN(Checkpoint checkpoint,
                       Checkpoint::Open(spec_.restored().folder()));
      restored_ = std::make_unique<Checkpoint>(std::move(checkpoint));
      first_step_ = spec_.restored().next_steps(rank_);
    }
    RETURN_IF_ERROR(Load());
    if (const auto step = StallStep(spec_.experiment(), rank_)) {
      model_ = std::make_unique<StallingModel>(std::move(model_), ForwardsBefore(*step),
                                               &client_.aborts());
    }
    ASSIGN_OR_RETURN(peers_, MakeExchange(endpoint_, rank_, plan_, gradients_, &time_,
                                          client_, &memory_));
    if (restored_ != nullptr) RETURN_IF_ERROR(ReadState(*restored_, peers_.state));
    restored_.reset();
    if (auto flips = FlipsOf(spec_.experiment(), rank_); !flips.empty()) {
      peers_.exchange = std::make_unique<BitFlippingExchange>(std::move(peers_.exchange),
                                                              std::move(flips));
    }
    metered_ = std::make_unique<MeteredTraffic>(
        endpoint_.metrics, [this] { return peers_.exchange->traffic(); });
    abort_ = std::make_unique<AbortSource::Registration>(
        &client_.aborts(),
        [this](const absl::Status& reason) { peers_.exchange->Abort(reason); });
    // Not the other way round: where contributions take turns, some workers get their
    // first parameters only when others have made a step.
    RETURN_IF_ERROR(client_.Barrier("start"));
    time_.Start();
    RETURN_IF_ERROR(ReportClock(member_, time_, client_));
    RETURN_IF_ERROR(peers_.exchange->Bind(parameters_.span(), gradients_.buffer.span()));
    RETURN_IF_ERROR(Train());
    RETURN_IF_ERROR(client_.BarrierWithoutDeadline("trained"));
    RETURN_IF_ERROR(ReportClock(member_, time_, client_));
    RETURN_IF_ERROR(EvaluateSnapshots());
    RETURN_IF_ERROR(client_.BarrierWithoutDeadline("evaluated"));
    ReportTrafficAndMemory();
    return client_.BarrierWithoutDeadline("counted");
  }

 private:
  // Of this rank, in the steps that this process makes before this one.
  int64_t ForwardsBefore(int64_t step) const {
    const Contributors contributors = ContributorsOf(spec_);
    return (contributors.StepsOf(rank_, step) -
            contributors.StepsOf(rank_, first_step_)) *
           spec_.experiment().training().micro_batches();
  }

  absl::Status Load() {
    rows_ = PartitionRange(spec_.experiment().training().global_batch(), spec_.workers(),
                           rank_)
                .count;
    if (spec_.experiment().compute().has_emulated()) {
      model_ =
          MakeSyntheticModel(plan_.layout, rank_,
                             spec_.experiment().training().micro_batches(), first_step_);
    } else {
      RETURN_IF_ERROR(LoadDataAndModel());
    }
    ASSIGN_OR_RETURN(parameters_, device_->Allocate(plan_.layout.count()));
    ASSIGN_OR_RETURN(gradients_,
                     AllocateGradients(endpoint_, rank_, plan_, spec_, device_.get()));
    parameters_ =
        Tracked(std::move(parameters_), memory_.Of(memory_purpose::kParameters));
    gradients_.buffer =
        Tracked(std::move(gradients_.buffer), memory_.Of(memory_purpose::kGradients));
    // The other workers get worker 0's parameters when the exchange is bound.
    if (rank_ == 0 && restored_ != nullptr) {
      RETURN_IF_ERROR(restored_->ReadParameters(0, parameters_.span().host()));
    } else if (rank_ == 0) {
      InitializeParameters(plan_.layout, spec_.experiment().training().seed(),
                           parameters_.span().host());
    }
    model_->Bind(parameters_.span(), gradients_.buffer.span());
    return data_ == nullptr ? absl::OkStatus() : WarmUp();
  }

  absl::Status LoadDataAndModel() {
    ASSIGN_OR_RETURN(
        DataSet data,
        LoadFashionMnist(spec_.experiment().data().fashion_mnist().directory()));
    data_ = std::make_unique<DataSet>(std::move(data));
    ASSIGN_OR_RETURN(model_, MakeModel(pass_rows()));
    RETURN_IF_ERROR(CheckLayout(model_->layout(), plan_.layout));
    return CheckEpochs(data_->shape.train_count, spec_);
  }

  absl::StatusOr<std::unique_ptr<Model>> MakeModel(int64_t max_rows) {
    return MakeMlp(device_.get(), Widths(spec_, data_->shape), max_rows,
                   spec_.experiment().model().mlp().branches());
  }

  // Of a forward and backward pass.
  int64_t pass_rows() const {
    return rows_ / spec_.experiment().training().micro_batches();
  }

  // Libraries compile their kernels at first use; that is no part of training.
  absl::Status WarmUp() {
    ASSIGN_OR_RETURN(const DeviceBuffer zeros,
                     device_->Allocate(pass_rows() * data_->shape.features));
    const std::vector<int32_t> labels(pass_rows());
    RETURN_IF_ERROR(
        model_->Forward({.rows = pass_rows(), .features = zeros.span(), .labels = labels})
            .status());
    return model_->Backward([](int) {});
  }

  absl::Status Train() {
    const Training& training = spec_.experiment().training();
    std::optional<Sampler> sampler;
    if (data_ != nullptr) {
      sampler.emplace(data_->shape.train_count, training.global_batch(), training.seed(),
                      LastBatch());
    }
    Pace pace(
        PaceOf(spec_.experiment(), rank_, plan_.layout), &time_,
        [this](absl::Duration missing) { return client_.aborts().WaitFor(missing); });
    StepGate::Save save;  // None where servers have all there is to be saved.
    if (!peers_.checkpointed.empty()) {
      save = [this](const CheckpointOrder& order) {
        // In these modes a step is an update.
        return WriteWorkerPart(order, rank_, order.step(), parameters_.span().host(),
                               peers_.checkpointed,
                               [this](int64_t bytes) { checkpointed_bytes_ += bytes; });
      };
    }
    StepGate gate(first_step_, std::move(save),
                  [this](const CheckpointReply& reply) { client_.Reply(reply); });
    const AbortSource::Registration abort_gate(
        &client_.aborts(), [&gate](const absl::Status& reason) { gate.Abort(reason); });
    Trainer trainer(
        {.rank = rank_,
         .workers = spec_.workers(),
         .rows = rows_,
         .micro_batches = training.micro_batches(),
         .steps = peers_.steps,
         .first_step = first_step_,
         .overlap = spec_.experiment().buckets().overlap(),
         .non_finite = training.non_finite(),
         .unused_parameters = training.unused_parameters(),
         .wire = spec_.arm().wire(),
         .digest_interval = training.digest_interval(),
         .snapshot_interval = training.evaluation_interval(),
         .take_snapshots =
             rank_ == 0 && data_ != nullptr && peers_.read_snapshot == nullptr},
        {.device = device_.get(),
         .model = model_.get(),
         .exchange = peers_.exchange.get(),
         .buckets = &plan_.buckets,
         .data = data_.get(),
         .sampler = sampler ? &*sampler : nullptr,
         .time = &time_,
         .pace = &pace,
         .parameters = parameters_.span(),
         .gradients = gradients_.buffer.span(),
         .gate = &gate,
         .accumulated_memory = training.micro_batches() > 1
                                   ? memory_.Of(memory_purpose::kAccumulatedGradients)
                                   : nullptr},
        [this](const StepRecord& step) {
          client_.Report([&](RecordBatch& batch) { *batch.add_steps() = step; });
        });
    client_.SetActivity([&] { return ActivityOf(trainer.progress(), gate); });
    client_.SetOrders([&gate](const CheckpointOrder& order) { gate.Order(order); });
    const absl::Status trained = trainer.Run();
    client_.SetOrders(nullptr);
    client_.SetActivity(nullptr);
    RETURN_IF_ERROR(trained);
    own_snapshots_ = trainer.TakeSnapshots();
    return absl::OkStatus();
  }

  // Samples of the last step of an epoch, where that is no whole global batch.
  int64_t LastBatch() const {
    const int last = spec_.last_contributors();
    return last < spec_.workers() ? last * rows_ : 0;
  }

  void ReportTrafficAndMemory() {
    client_.Report([&](RecordBatch& batch) {
      *batch.add_traffic() = TrafficOf(endpoint_, member_, peers_.exchange->traffic());
      AddMemory(member_, memory_, &batch);
    });
  }

  Activity ActivityOf(const TrainingProgress& progress, const StepGate& gate) const {
    Activity activity;
    activity.set_under_way(true);
    activity.set_step(progress.step);
    activity.set_phase(ToString(progress.phase));
    // Bytes count as progress too: a bucket may be long on a slow link.
    const ExchangeTraffic traffic = peers_.exchange->traffic();
    activity.set_progress(progress.advances + traffic.payload_in + traffic.payload_out +
                          checkpointed_bytes_);
    // Who computes holds others up, whatever its exchange waits for meanwhile.
    if (progress.phase == TrainingPhase::kWaiting)
      activity.set_awaiting(peers_.exchange->Awaited());
    if (progress.phase == TrainingPhase::kHolding && gate.holds())
      activity.set_awaiting("the others, for a checkpoint");
    return activity;
  }

  // One after the other, so that no more than one is fetched and kept for it.
  absl::Status EvaluateSnapshots() {
    if (rank_ != 0 || data_ == nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, MakeModel(kEvaluationRows));
    const SnapshotReader read =
        peers_.read_snapshot != nullptr ? peers_.read_snapshot : OwnSnapshots();
    std::vector<float> parameters(plan_.layout.count());
    const int64_t interval = spec_.experiment().training().evaluation_interval();
    for (int64_t step = spec_.restored().step(); step < spec_.steps();) {
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
  const Member& member_;
  const int rank_;
  CoordinatorClient& client_;
  const JobSpec spec_;
  const JobPlan plan_;
  TimeSinceStart time_;                   // From the barrier on.
  std::unique_ptr<DataSet> data_;         // Null where compute is emulated.
  int64_t rows_ = 0;                      // This worker's part of the global batch.
  std::unique_ptr<Checkpoint> restored_;  // Until it has been read.
  int64_t first_step_ = 0;                // That this process makes.
  std::atomic<int64_t> checkpointed_bytes_{0};
  MemoryGauges memory_;
  std::unique_ptr<Device> device_;
  DeviceBuffer parameters_;
  GradientMemory gradients_;
  std::unique_ptr<Model> model_;
  WorkerExchange peers_;
  std::unique_ptr<MeteredTraffic> metered_;
  std::unique_ptr<AbortSource::Registration> abort_;
  std::vector<Snapshot> own_snapshots_;
};

absl::Status Run(const Endpoint& endpoint, const Member& member,
                 CoordinatorClient& client) {
  Worker worker(endpoint, member, client);
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
