#include "experiments/arm_runner.h"

#include <signal.h>

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
#include "common/job_observer.h"
#include "common/job_plan.h"
#include "common/member_process.h"
#include "common/status_macros.h"
#include "common/time_source.h"
#include "experiments/arm_recorder.h"
#include "experiments/hosts/link_sampler.h"
#include "experiments/live/live_state.h"
#include "experiments/progress.h"

namespace psring {
namespace {

// How often progress is looked at.
constexpr absl::Duration kTick = absl::Milliseconds(200);
// How long processes may take to end once the job has been aborted.
constexpr absl::Duration kAbortGrace = absl::Seconds(5);

struct ProcessToStart {
  std::string name;
  std::vector<std::string> arguments;
  std::string metrics_at = "";                // HOST:PORT; empty: nowhere.
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
      ProcessToStart& process = processes.back();
      std::string metrics_host = options.metrics ? options.metrics->host : "";
      if (options.hosts != nullptr) {
        const HostPlan& plan = options.hosts->plan();
        const PlannedHost& host = plan.hosts[plan.HostOf(process.name)];
        process.arguments.push_back("--bind");
        process.arguments.push_back(host.data_address);
        process.network = options.hosts->NamespaceOf(process.name);
        // Whoever asks takes nothing of what the link carries.
        metrics_host = host.control_address;
      }
      if (!options.metrics) continue;
      process.metrics_at = HostPort(
          metrics_host, options.metrics->port + static_cast<int>(processes.size()));
      process.arguments.push_back("--metrics");
      process.arguments.push_back(process.metrics_at);
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

void PrintMetrics(const std::string& title,
                  const std::vector<ProcessToStart>& processes) {
  std::cerr << title << ": metrics at";
  for (const ProcessToStart& process : processes) {
    std::cerr << (&process == &processes.front() ? " " : ", ") << "http://"
              << process.metrics_at << "/metrics (" << process.name << ")";
  }
  std::cerr << std::endl;
}

// Tells the watchers, then the recorder, which keeps the batch.
class Observer final : public JobObserver {
 public:
  Observer(ArmRecorder* recorder, const std::vector<RunWatcher*>& watchers)
      : recorder_(recorder), watchers_(watchers) {}

  void Joined(const Hello& process) override { recorder_->Joined(process); }
  void Ended(const Hello& process, const absl::Status& outcome) override {
    recorder_->Ended(process, outcome);
  }
  void Aborted(const absl::Status& reason) override { recorder_->Aborted(reason); }
  void Warned(const std::string& text) override { recorder_->Warned(text); }
  void Reported(const Member& from, RecordBatch batch, absl::Duration intake) override {
    for (RunWatcher* const watcher : watchers_) watcher->Reported(from, batch);
    recorder_->Reported(from, std::move(batch), intake);
  }

 private:
  ArmRecorder* const recorder_;
  const std::vector<RunWatcher*>& watchers_;
};

// Drives the processes of one arm to their end.
class ArmRun {
 public:
  ArmRun(const JobSpec& spec, const ArmRunOptions& options, DatabaseWriter* writer,
         ChildProcesses* children, LiveDisplay* display)
      : spec_(spec),
        options_(options),
        writer_(writer),
        children_(children),
        display_(display),
        recorder_(spec, writer),
        observer_(&recorder_, options.watchers),
        coordinator_(spec, &time_, &observer_),
        saved_(spec.restored().step()) {}

  absl::Status Run(absl::Status* stopped) {
    for (RunWatcher* const watcher : options_.watchers) watcher->Begin(spec_);
    absl::Status outcome = Drive();
    *stopped = stop_;
    host_.reset();  // Ends every session, so that nothing comes in any more.
    if (sampler_) outcome.Update(sampler_->Stop());
    for (RunWatcher* const watcher : options_.watchers) {
      watcher->End();
      outcome.Update(watcher->status());
    }
    const absl::Status recorded = recorder_.End(outcome);
    return outcome.ok() ? recorded : outcome;
  }

 private:
  absl::Status Drive() {
    ASSIGN_OR_RETURN(host_, CoordinatorHost::Start(options_.listen, &coordinator_));
    if (options_.hosts != nullptr) {
      sampler_.emplace(options_.hosts, [this](const HostsReading& reading) {
        for (RunWatcher* const watcher : options_.watchers) watcher->Sampled(reading);
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
      for (const RunWatcher* const watcher : options_.watchers) {
        if (!watcher->status().ok()) coordinator_.Abort(watcher->status());
      }
      const ArmProgress progress = recorder_.Progress();
      Show(progress);
      RequestDueCheckpoint(progress);
      TellNews();
      CheckRendezvous();
      if (!coordinator_.status().ok()) Hurry();
    }
    TellNews();
    display_->Clear();
    return coordinator_.status();
  }

  void Show(const ArmProgress& progress) {
    LiveState state;
    if (options_.watch != nullptr) state = options_.watch->State();
    state.arm = options_.title;
    state.position = options_.position;
    state.positions = options_.positions;
    state.steps = spec_.steps();
    state.progress = progress;
    display_->Show(state, time_.Elapsed());
  }

  absl::Status StartAll() {
    const std::vector<ProcessToStart> processes =
        ProcessesOf(spec_, options_, HostPort(options_.advertise, host_->port()));
    if (options_.metrics) PrintMetrics(options_.title, processes);
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
    if (event.save) Save();
    if (event.signal) Stop(*event.signal);
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

  void Save() {
    if (const std::string missing = coordinator_.missing(); !missing.empty()) {
      Tell(absl::StrCat("no checkpoint: not joined yet: ", missing));
    } else {
      coordinator_.checkpoints().Request();
    }
  }

  // SIGTERM saves first what can be saved; whoever cannot wait sends another signal.
  void Stop(int signal) {
    const bool saves = signal == SIGTERM && !spec_.checkpoint_folder().empty() &&
                       coordinator_.missing().empty();
    if (saves && stop_.ok()) {
      stop_ = SignalError(signal);
      coordinator_.checkpoints().Request(stop_);
    } else {
      coordinator_.Abort(SignalError(signal));
    }
  }

  // Where workers do not keep step, nobody but who sees all of them knows when one is
  // due.
  void RequestDueCheckpoint(const ArmProgress& progress) {
    const int64_t every = spec_.experiment().checkpoint().every_steps();
    if (spec_.checkpoint_folder().empty() || every == 0 || KeepsStep(spec_)) return;
    const int64_t made = progress.first_step + progress.steps_done;
    if (made / every <= saved_ / every || made >= spec_.steps()) return;
    saved_ = made;
    coordinator_.checkpoints().Request();
  }

  void TellNews() {
    for (const std::string& news : coordinator_.checkpoints().TakeNews()) Tell(news);
  }

  void Tell(const std::string& news) {
    display_->Clear();
    std::cerr << options_.title << ": " << news << std::endl;
    recorder_.Note(Severity::kInfo, "", news);
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
  LiveDisplay* const display_;
  const RealTime time_;
  ArmRecorder recorder_;
  Observer observer_;
  Coordinator coordinator_;
  std::unique_ptr<CoordinatorHost> host_;
  std::optional<LinkSampler> sampler_;
  std::optional<absl::Duration> aborted_at_;
  absl::Status stop_;  // Why it stops once a checkpoint has been made.
  // Where workers do not keep step: when a checkpoint was last due.
  int64_t saved_;
};

}  // namespace

absl::Status RunArm(const JobSpec& spec, const ArmRunOptions& options,
                    DatabaseWriter* writer, ChildProcesses* children,
                    LiveDisplay* display, absl::Status* stopped) {
  return ArmRun(spec, options, writer, children, display).Run(stopped);
}

}  // namespace psring
