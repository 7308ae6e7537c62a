#include "experiments/tensorboard/tensorboard_writer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace psring {
namespace {

std::string HostName() {
  std::array<char, 256> name = {};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace

absl::Status TensorBoardWriter::CheckFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tensorboard: cannot make ", folder, ": ", error.message()));
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tensorboard: cannot write into ", folder, ": ", strerror(errno)));
  }
  return absl::OkStatus();
}

void TensorBoardWriter::Begin(const JobSpec& spec) {
  MutexLock lock(&mutex_);
  workers_ = spec.workers();
  has_loss_ = !spec.experiment().compute().has_emulated();
  all_steps_ = spec.steps();
  evaluation_interval_ = spec.experiment().training().evaluation_interval();
  start_.reset();
  latest_.clear();
  open_.clear();
  samples_ = 0;
  end_ns_ = 0;
  ends_ns_.clear();
  const std::string folder = absl::StrCat(folder_, "/", spec.arm().name(), "-seed-",
                                          spec.experiment().training().seed());
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    status_.Update(
        absl::InternalError(absl::StrCat("cannot make ", folder, ": ", error.message())));
    return;
  }
  auto file = EventFile::Create(folder, absl::Now(), HostName());
  status_.Update(file.status());
  if (file.ok()) file_ = *std::move(file);
}

void TensorBoardWriter::Reported(const Member& /*from*/, const RecordBatch& batch) {
  MutexLock lock(&mutex_);
  if (file_ == nullptr) return;
  if (!start_ && batch.steps_size() > 0) {
    const StepRecord& last = batch.steps(batch.steps_size() - 1);
    start_ = absl::Now() - absl::Nanoseconds(last.start_ns() + last.total_ns());
  }
  for (const StepRecord& step : batch.steps()) AddStep(step);
  WriteStepsUpTo(LastOfAll());
  for (const EvaluationRecord& evaluation : batch.evaluations()) {
    WriteEvaluation(evaluation);
  }
  status_.Update(file_->Flush());
}

void TensorBoardWriter::AddStep(const StepRecord& record) {
  Step& step = open_[record.step()];
  step.samples += record.samples();
  if (has_loss_ && record.samples() > 0) {
    step.loss += record.loss();
    ++step.workers_with_loss;
  }
  step.exposed_ns += record.exposed_ns();
  step.total_ns += record.total_ns();
  step.end_ns = std::max<int64_t>(step.end_ns, record.start_ns() + record.total_ns());
  latest_[record.rank()] = record.step();
}

int64_t TensorBoardWriter::LastOfAll() const {
  if (static_cast<int>(latest_.size()) < workers_) return -1;
  int64_t last = INT64_MAX;
  for (const auto& [rank, step] : latest_) last = std::min(last, step);
  return last;
}

void TensorBoardWriter::WriteStepsUpTo(int64_t last) {
  while (!open_.empty() && open_.begin()->first <= last) {
    WriteStep(open_.begin()->first, open_.begin()->second);
    open_.erase(open_.begin());
  }
}

void TensorBoardWriter::WriteStep(int64_t index, const Step& step) {
  samples_ += step.samples;
  end_ns_ = std::max(end_ns_, step.end_ns);
  EventFile::Scalars scalars;
  if (step.workers_with_loss > 0) {
    scalars.emplace_back("loss", step.loss / step.workers_with_loss);
  }
  if (end_ns_ > 0) {
    scalars.emplace_back("samples_per_second", static_cast<double>(samples_) /
                                                   (static_cast<double>(end_ns_) * 1e-9));
  }
  if (step.total_ns > 0) {
    scalars.emplace_back("exposed_share", static_cast<double>(step.exposed_ns) /
                                              static_cast<double>(step.total_ns));
  }
  file_->Add(*start_ + absl::Nanoseconds(step.end_ns), index + 1, scalars);
  if (IsEvaluated(index + 1)) ends_ns_[index + 1] = end_ns_;
}

bool TensorBoardWriter::IsEvaluated(int64_t steps_made) const {
  return steps_made == all_steps_ ||
         (evaluation_interval_ > 0 && steps_made % evaluation_interval_ == 0);
}

void TensorBoardWriter::WriteEvaluation(const EvaluationRecord& evaluation) {
  int64_t time_ns = end_ns_;
  if (evaluation.has_time_ns()) {
    time_ns = evaluation.time_ns();
  } else if (const auto end = ends_ns_.find(evaluation.step()); end != ends_ns_.end()) {
    time_ns = end->second;
  }
  const absl::Time start = start_ ? *start_ : absl::Now();
  file_->Add(start + absl::Nanoseconds(time_ns), evaluation.step(),
             {{"accuracy", evaluation.accuracy()}, {"test_loss", evaluation.loss()}});
}

void TensorBoardWriter::End() {
  MutexLock lock(&mutex_);
  if (file_ == nullptr) return;
  // Where workers do not keep step, the slowest has not made those of the fastest.
  WriteStepsUpTo(INT64_MAX);
  status_.Update(file_->Flush());
  file_.reset();
}

absl::Status TensorBoardWriter::status() const {
  MutexLock lock(&mutex_);
  return status_;
}

}  // namespace psring
