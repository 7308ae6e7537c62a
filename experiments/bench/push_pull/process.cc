#include "experiments/bench/push_pull/process.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/status_macros.h"
#include "experiments/bench/obey.h"
#include "experiments/bench/push_pull/check.h"
#include "experiments/bench/push_pull/plan.h"

namespace psring {
namespace {

// Of all threads.
absl::Duration ProcessProcessorTime() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

BenchHello HelloOf(const PushPullJob& job, int rank, const std::string& version) {
  BenchHello hello;
  hello.set_rank(rank);
  hello.set_ranks(job.servers() + job.workers());
  hello.set_version(version);
  return hello;
}

// What a worker does at each command.
class Work {
 public:
  Work(const PushPullJob& job, int worker, PushPullWorker* end)
      : job_(job), worker_(worker), end_(*end) {}
  ~Work() { end_.Close(); }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  absl::Status Obey(const BenchCommand& command, BenchReply* reply) {
    switch (command.command_case()) {
      case BenchCommand::kOpen:
        return Open(command.open().count());
      case BenchCommand::kConnect:
        // Servers come first.
        return end_.Connect(*plan_, gradients_, parameters_,
                            {command.connect().addresses().begin(),
                             command.connect().addresses().begin() + job_.servers()});
      case BenchCommand::kMeasure:
        return command.measure().check() ? Check(command.measure(), reply)
                                         : Time(command.measure(), reply);
      case BenchCommand::kSettle:
        return Settle(reply);
      default:
        return UnknownCommandError();
    }
  }

 private:
  absl::Status Open(int64_t count) {
    end_.Close();
    plan_ = PlanPushPull(job_, count);
    gradients_.assign(count, 0.0f);
    parameters_.assign(count, 0.0f);
    checked_ = 0;
    return absl::OkStatus();
  }

  // Echoes are compared at once, parameters when all workers have pushed.
  absl::Status Check(const BenchMeasure& measure, BenchReply* reply) {
    for (int i = 0; i < measure.operations(); ++i) {
      for (int64_t index = 0; index < plan_->count; ++index) {
        gradients_[index] = PushPullInput(worker_, checked_, index);
      }
      ++checked_;
      RETURN_IF_ERROR(end_.Exchange(/*land=*/true));
      if (end_.echoes()) Add(WrongEchoes(*plan_, gradients_, parameters_), reply);
    }
    return absl::OkStatus();
  }

  absl::Status Settle(BenchReply* reply) {
    std::fill(gradients_.begin(), gradients_.end(), 0.0f);
    RETURN_IF_ERROR(end_.Exchange(/*land=*/true));
    Add(end_.echoes() ? WrongEchoes(*plan_, gradients_, parameters_)
                      : WrongParameters(job_.mode().has_sync(), job_.workers(), checked_,
                                        parameters_),
        reply);
    return absl::OkStatus();
  }

  // Zeros leave parameters as they are, however often.
  absl::Status Time(const BenchMeasure& measure, BenchReply* reply) {
    std::fill(gradients_.begin(), gradients_.end(), 0.0f);
    reply->mutable_times_ns()->Reserve(measure.operations());
    const absl::Duration before = ProcessProcessorTime();
    for (int operation = 0; operation < measure.operations(); ++operation) {
      const auto start = std::chrono::steady_clock::now();
      RETURN_IF_ERROR(end_.Exchange(/*land=*/false));
      reply->add_times_ns(std::chrono::duration_cast<std::chrono::nanoseconds>(
                              std::chrono::steady_clock::now() - start)
                              .count());
    }
    reply->set_processor_ns(absl::ToInt64Nanoseconds(ProcessProcessorTime() - before));
    return absl::OkStatus();
  }

  void Add(const Wrong& wrong, BenchReply* reply) const {
    if (wrong.elements == 0) return;
    if (reply->wrong() == 0) {
      reply->set_first_wrong(absl::StrCat("worker ", worker_, ", ", wrong.first));
    }
    reply->set_wrong(reply->wrong() + wrong.elements);
  }

  const PushPullJob& job_;
  const int worker_;
  PushPullWorker& end_;
  std::optional<PushPullPlan> plan_;  // Of what is open.
  std::vector<float> gradients_, parameters_;
  int64_t checked_ = 0;  // Operations since then.
};

}  // namespace

absl::Status ServePushPull(const std::string& control, const PushPullJob& job, int server,
                           const std::string& version, PushPullServer& end) {
  return ObeyLauncher(control, HelloOf(job, server, version),
                      [&](const BenchCommand& command, BenchReply* reply) {
                        if (!command.has_open()) return UnknownCommandError();
                        const absl::StatusOr<std::string> address =
                            end.Open(PlanPushPull(job, command.open().count()));
                        if (address.ok()) reply->set_address(*address);
                        return address.status();
                      });
}

absl::Status WorkPushPull(const std::string& control, const PushPullJob& job, int worker,
                          const std::string& version, PushPullWorker& end) {
  Work work(job, worker, &end);
  return ObeyLauncher(control, HelloOf(job, job.servers() + worker, version),
                      [&](const BenchCommand& command, BenchReply* reply) {
                        return work.Obey(command, reply);
                      });
}

}  // namespace psring
