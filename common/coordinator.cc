#include "common/coordinator.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/errors.h"
#include "common/job_plan.h"
#include "common/schedule.h"

namespace psring {
namespace {

// How long a lost connection waits for a better explanation, such as the signal that
// killed its process, from whoever started that; and how long the report of a lost peer
// waits for either.
constexpr absl::Duration kLossGrace = absl::Milliseconds(300);
constexpr absl::Duration kSymptomGrace = absl::Seconds(1);

std::string Describe(const Hello& hello) {
  return absl::StrCat(ToString(hello.member()), " (process ", hello.process_id(), " on ",
                      hello.host(), ")");
}

Member MakeMember(int role, int rank) {
  Member member;
  member.set_role(static_cast<Role>(role));
  member.set_rank(rank);
  return member;
}

}  // namespace

std::string ToString(const Member& member) {
  return absl::StrCat(absl::AsciiStrToLower(Role_Name(member.role())), " ",
                      member.rank());
}

Coordinator::Coordinator(JobSpec spec, const TimeSource* time, JobObserver* observer)
    : spec_(std::move(spec)),
      time_(time),
      judge_(SettingsOf(spec_.experiment().liveness())),
      observer_(observer),
      checkpoints_(spec_, time, [this](const absl::Status& reason) { Abort(reason); }) {}

std::set<Coordinator::Key> Coordinator::Expected() const {
  std::set<Key> expected;
  for (int rank = 0; rank < spec_.workers(); ++rank) expected.insert({WORKER, rank});
  for (int rank = 0; rank < spec_.servers(); ++rank) expected.insert({SERVER, rank});
  return expected;
}

absl::StatusOr<JobSpec> Coordinator::Join(const Hello& hello) {
  const auto refuse = [&](absl::string_view why) {
    return absl::FailedPreconditionError(
        absl::StrCat("the coordinator refuses ", Describe(hello), ": ", why));
  };
  if (hello.protocol_version() != kProtocolVersion) {
    return refuse(absl::StrCat("it speaks protocol version ", hello.protocol_version(),
                               ", this job version ", kProtocolVersion));
  }
  if (hello.job() != spec_.job()) {
    return refuse(absl::StrCat("it belongs to job \"", hello.job(), "\", this is job \"",
                               spec_.job(), "\""));
  }
  const Key key(hello.member().role(), hello.member().rank());
  if (!Expected().contains(key)) {
    return refuse(absl::StrCat("the job has ", spec_.workers(), " workers and ",
                               spec_.servers(), " servers, ranks count from 0"));
  }
  if (absl::Status status = aborts_.reason(); !status.ok()) return status;
  {
    MutexLock lock(&mutex_);
    if (const auto it = processes_.find(key); it != processes_.end()) {
      return refuse(absl::StrCat("there is already ", Describe(it->second.hello)));
    }
    processes_[key].hello = hello;
    judge_.Join(Describe(hello), time_->Elapsed());
    changed_.NotifyAll();
  }
  MutexLock lock(&observer_mutex_);
  observer_->Joined(hello);
  return spec_;
}

void Coordinator::Take(const Member& from, RecordBatch batch, absl::Duration intake) {
  MutexLock lock(&observer_mutex_);
  observer_->Reported(from, std::move(batch), intake);
}

void Coordinator::Hear(const Hello& hello, const Activity& activity) {
  MutexLock lock(&mutex_);
  judge_.Hear(Describe(hello), activity, time_->Elapsed());
}

std::vector<std::string> Coordinator::CheckLiveness() {
  LivenessJudge::Findings findings;
  {
    MutexLock lock(&mutex_);
    findings = judge_.Check(time_->Elapsed());
  }
  {
    MutexLock lock(&observer_mutex_);
    for (const std::string& warning : findings.warnings) observer_->Warned(warning);
  }
  if (!findings.error.ok()) Abort(findings.error);
  return findings.warnings;
}

void Coordinator::Leave(const Hello& hello, const absl::Status& outcome) {
  const Key key(hello.member().role(), hello.member().rank());
  {
    // Before it counts as gone: who waits for the last one may then ask what was seen.
    MutexLock lock(&observer_mutex_);
    observer_->Ended(hello, outcome);
  }
  {
    MutexLock lock(&mutex_);
    processes_.at(key).left = true;
    judge_.Leave(Describe(hello));
    changed_.NotifyAll();
    // A lost peer that a member tells of is a symptom, and who looks lost may itself be
    // a victim: the cause is heard within moments, from the lost one's own session or
    // from whoever started it.
    if (ExitCodeOf(outcome) == ExitCode::kPeerLost) {
      (void)WaitLocked([] { return false; }, kSymptomGrace);
    }
  }
  if (!outcome.ok()) Abort(Annotate(outcome, ToString(hello.member())));
}

void Coordinator::Lose(const Hello& hello, absl::string_view how) {
  {
    MutexLock lock(&mutex_);
    judge_.Leave(Describe(hello));
    (void)WaitLocked([] { return false; }, kLossGrace);
  }
  const absl::Status lost = PeerLostError(absl::StrCat(Describe(hello), " ", how));
  {
    MutexLock lock(&observer_mutex_);
    observer_->Ended(hello, lost);
  }
  Abort(lost);
}

void Coordinator::Put(const std::string& key, std::string value) {
  MutexLock lock(&mutex_);
  values_[key] = std::move(value);
  changed_.NotifyAll();
}

std::string Coordinator::NamesLocked(const std::function<bool(const Key&)>& there) const {
  std::vector<std::string> names;
  for (const Key& key : Expected()) {
    if (!there(key)) names.push_back(ToString(MakeMember(key.first, key.second)));
  }
  return absl::StrJoin(names, ", ");
}

std::string Coordinator::MissingLocked() const {
  return NamesLocked([&](const Key& key) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return processes_.contains(key);
  });
}

absl::Status Coordinator::WaitLocked(const std::function<bool()>& ready,
                                     absl::Duration timeout) {
  const auto deadline = SteadyDeadline(timeout);
  bool expired = false;
  while (!aborted_ && !ready()) {
    if (expired) return absl::DeadlineExceededError("");
    expired = changed_.WaitUntil(&mutex_, deadline);
  }
  // Also where the reason is there already and aborted_ is about to follow.
  return aborts_.reason();
}

absl::StatusOr<std::string> Coordinator::Get(const std::string& key,
                                             absl::Duration timeout) {
  MutexLock lock(&mutex_);
  const absl::Status status = WaitLocked(
      [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return values_.contains(key); }, timeout);
  if (status.ok()) return values_.at(key);
  if (!absl::IsDeadlineExceeded(status)) return status;
  const std::string missing = MissingLocked();
  return RendezvousTimeoutError(absl::StrCat(
      "nobody published \"", key, "\" within ", absl::FormatDuration(timeout),
      missing.empty() ? "; all members have joined"
                      : absl::StrCat("; not joined: ", missing)));
}

absl::Status Coordinator::Barrier(const std::string& name, const Member& member,
                                  absl::Duration timeout) {
  MutexLock lock(&mutex_);
  std::set<Key>& entered = barriers_[name];
  entered.insert({member.role(), member.rank()});
  changed_.NotifyAll();
  const absl::Status status =
      WaitLocked([&] { return entered.size() == Expected().size(); }, timeout);
  if (!absl::IsDeadlineExceeded(status)) return status;
  return RendezvousTimeoutError(absl::StrCat(
      ToString(member), " waited ", absl::FormatDuration(timeout), " at barrier \"", name,
      "\" for ", NamesLocked([&](const Key& key) { return entered.contains(key); })));
}

absl::StatusOr<std::vector<StepConstants>> Coordinator::GetSchedule(int64_t first_update,
                                                                    int64_t count) const {
  if (absl::Status status = aborts_.reason(); !status.ok()) return status;
  const int64_t most = MostUpdates(spec_);
  if (first_update < 0 || first_update >= most || count < 1 ||
      count > kMostScheduleUpdates) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the schedule of ", count, " updates from update ", first_update,
        " was asked for; the job has at most ", most,
        " updates, and one call returns 1 to ", kMostScheduleUpdates, " of them"));
  }
  std::vector<StepConstants> constants;
  const int64_t end = first_update + std::min(count, most - first_update);
  for (int64_t update = first_update; update < end; ++update) {
    const double position =
        static_cast<double>(update * spec_.contributions_per_update()) /
        static_cast<double>(spec_.workers());
    constants.push_back(StepConstantsAt(spec_.experiment().training().optimizer(),
                                        spec_.steps(), position, update));
  }
  return constants;
}

void Coordinator::Abort(const absl::Status& reason) {
  aborts_.Abort(reason);
  {
    MutexLock lock(&mutex_);
    if (aborted_) return;
    aborted_ = true;
    changed_.NotifyAll();
    if (FinishedLocked()) return;  // Nobody was there to be told.
  }
  MutexLock lock(&observer_mutex_);
  observer_->Aborted(aborts_.reason());
}

std::string Coordinator::missing() const {
  MutexLock lock(&mutex_);
  return MissingLocked();
}

bool Coordinator::finished() const {
  MutexLock lock(&mutex_);
  return FinishedLocked();
}

bool Coordinator::FinishedLocked() const {
  for (const Key& key : Expected()) {
    const auto it = processes_.find(key);
    if (it == processes_.end() || !it->second.left) return false;
  }
  return true;
}

}  // namespace psring
