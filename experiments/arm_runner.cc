#include "experiments/arm_runner.h"

#include <signal.h>
#include <string.h>

#include <iostream>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/coordinator.h"
#include "common/coordinator_service.h"
#include "common/errors.h"
#include "common/member_process.h"
#include "common/status_macros.h"
#include "common/time_source.h"
#include "experiments/arm_recorder.h"
#include "experiments/hosts/link_sampler.h"

namespace psring {
namespace {

// How often progress is looked at.
constexpr absl::Duration kTick = absl::Milliseconds(200);
// How long processes may take to end once the job has been aborted.
constexpr absl::Duration kAbortGrace = absl::Seconds(5);

struct ProcessToStart {
  std::string name;
  std::vector<std::string> arguments;
  std::optional<int> network = std::nullopt;  // As in ChildProcesses.
};

std::vector<ProcessToStart> ProcessesOf(const JobSpec& spec, const ArmRunOptions& options,
                                        const std::string& coordinator) {
  std::vector<ProcessToStart> processes;
  const auto add = [&](const std::string& binary, Role role, int count) {
    for (int rank = 0; rank < count; ++rank) {
      Member member;
      member.set_role(role);
      member.set_rank(rank);
      processes.push_back(
          {.name = ToString(member),
           .arguments = {
               binary, "--coordinator", coordinator, "--job", spec.job(), "--rank",
               absl::StrCat(rank), "--rendezvous-timeout",
               absl::StrCat(absl::ToDoubleSeconds(options.rendezvous_timeout))}});
      if (options.hosts == nullptr) continue;
      ProcessToStart& process = processes.back();
      const HostPlan& plan = options.hosts->plan();
      process.arguments.push_back("--bind");
      process.arguments.push_back(plan.hosts[plan.HostOf(process.name)].data_address);
      process.network = options.hosts->NamespaceOf(process.name);
    }
  };
  add(options.server_binary, SERVER, spec.servers());
  add(options.worker_binary, WORKER, spec.workers());
  return processes;
}

void PrintHowToStart(const std::vector<ProcessToStart>& processes) {
  std::cerr << "Start these, each on its host (ADDRESS: the host's own), within the "
               "rendezvous timeout:\n";
  for (const ProcessToStart& process : processes) {
    std::cerr << "  " << absl::StrJoin(process.arguments, " ")
              << " --bind ADDRESS --advertise ADDRESS\n";
  }
  std::cerr << std::flush;
}

// Drives the processes of one arm to their end.
class ArmRun {
 public:
  ArmRun(const JobSpec& spec, const ArmRunOptions& options, DatabaseWriter* writer,
         ChildProcesses* children, ProgressDisplay* progress)
      : spec_(spec),
        options_(options),
        writer_(writer),
        children_(children),
        progress_(progress),
        recorder_(spec, writer),
        coordinator_(spec, &time_, &recorder_) {}

  absl::Status Run() {
    absl::Status outcome = Drive();
    host_.reset();  // Ends every session, so that nothing comes in any more.
    if (sampler_) outcome.Update(sampler_->Stop());
    const absl::Status recorded = recorder_.End(outcome);
    return outcome.ok() ? recorded : outcome;
  }

 private:
  absl::Status Drive() {
    ASSIGN_OR_RETURN(host_, CoordinatorHost::Start(options_.listen, &coordinator_));
    if (options_.hosts != nullptr) {
      sampler_.emplace(options_.hosts, [this](const HostsReading& reading) {
        recorder_.Sampled(reading);
      });
    }
    if (absl::Status status = StartAll(); !status.ok()) coordinator_.Abort(status);
    while (!Done()) {
      React(children_->Wait(kTick));
      if (absl::Status status = writer_->status(); !status.ok()) {
        coordinator_.Abort(status);
      }
      if (sampler_ && !sampler_->status().ok()) coordinator_.Abort(sampler_->status());
      progress_->Show(options_.title, spec_.steps(), recorder_.Progress(),
                      time_.Elapsed());
      CheckRendezvous();
      if (!coordinator_.status().ok()) Hurry();
    }
    progress_->Clear();
    return coordinator_.status();
  }

  absl::Status StartAll() {
    const std::vector<ProcessToStart> processes =
        ProcessesOf(spec_, options_, HostPort(options_.advertise, host_->port()));
    if (options_.external) {
      PrintHowToStart(processes);
      return absl::OkStatus();
    }
    for (const ProcessToStart& process : processes) {
      RETURN_IF_ERROR(children_->Start(
          process.name, process.arguments,
          absl::StrCat(options_.log_folder, "/",
                       absl::StrReplaceAll(process.name, {{" ", "-"}}), ".log"),
          process.network));
    }
    return absl::OkStatus();
  }

  bool Done() const {
    if (children_->running()) return false;
    if (!coordinator_.status().ok()) return true;
    return coordinator_.finished();
  }

  void React(const ChildProcesses::Event& event) {
    if (event.signal) {
      coordinator_.Abort(WithExitCode(
          absl::CancelledError(absl::StrCat("stopped by ", strsignal(*event.signal))),
          static_cast<ExitCode>(128 + *event.signal)));
    }
    for (const EndedChild& child : event.ended) {
      if (child.exit_code == 0) continue;
      recorder_.Note(Severity::kError, child.name,
                     absl::StrCat("process ", child.pid, " ", child.how));
      // Where the child has told its own reason, that one has come first.
      coordinator_.Abort(PeerLostError(
          absl::StrCat(child.name, " (process ", child.pid, ") ", child.how,
                       "; its log: ", options_.log_folder, "/",
                       absl::StrReplaceAll(child.name, {{" ", "-"}}), ".log")));
    }
  }

  // Members that have joined miss the others by themselves, but nobody else misses the
  // first one.
  void CheckRendezvous() {
    if (time_.Elapsed() < options_.rendezvous_timeout) return;
    const std::string missing = coordinator_.missing();
    if (missing.empty()) return;
    coordinator_.Abort(RendezvousTimeoutError(
        absl::StrCat("not joined within ",
                     absl::FormatDuration(options_.rendezvous_timeout), ": ", missing)));
  }

  // The job has been aborted and everyone told; who does not end in time is killed.
  void Hurry() {
    if (!aborted_at_) aborted_at_ = time_.Elapsed();
    if (time_.Elapsed() - *aborted_at_ > kAbortGrace) children_->KillAll();
  }

  const JobSpec& spec_;
  const ArmRunOptions& options_;
  DatabaseWriter* const writer_;
  ChildProcesses* const children_;
  ProgressDisplay* const progress_;
  const RealTime time_;
  ArmRecorder recorder_;
  Coordinator coordinator_;
  std::unique_ptr<CoordinatorHost> host_;
  std::optional<LinkSampler> sampler_;
  std::optional<absl::Duration> aborted_at_;
};

}  // namespace

absl::Status RunArm(const JobSpec& spec, const ArmRunOptions& options,
                    DatabaseWriter* writer, ChildProcesses* children,
                    ProgressDisplay* progress) {
  return ArmRun(spec, options, writer, children, progress).Run();
}

}  // namespace psring
