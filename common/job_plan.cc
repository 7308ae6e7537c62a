#include "common/job_plan.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/fingerprint.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace psring {
namespace {

JobPlan PlanWithoutSlots(const JobSpec& spec) {
  JobPlan plan;
  for (const TensorSpec& tensor : spec.tensors()) {
    plan.layout.Add(tensor.name(), {tensor.shape().begin(), tensor.shape().end()});
  }
  plan.buckets = PlanBuckets(plan.layout, spec.experiment().buckets().cap_bytes(),
                             spec.experiment().buckets().first_cap_bytes());
  return plan;
}

}  // namespace

JobPlan PlanJob(const JobSpec& spec) {
  JobPlan plan = PlanWithoutSlots(spec);
  if (spec.servers() > 0) {
    plan.slots = PlanSlots(plan.layout, plan.buckets, spec.servers(),
                           spec.arm().parameter_server().placement());
  }
  return plan;
}

absl::Status CheckPlan(const JobSpec& spec) {
  if (spec.servers() == 0) return absl::OkStatus();
  const JobPlan plan = PlanWithoutSlots(spec);
  const int64_t slots = CountSlots(plan.layout, plan.buckets, spec.servers(),
                                   spec.arm().parameter_server().placement());
  if (slots <= kMostSlots) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "arm '", spec.arm().name(), "': its ", plan.buckets.buckets.size(), " buckets on ",
      spec.servers(), " servers are ", slots, " slots; allowed: at most ", kMostSlots,
      ", with fewer servers or larger buckets"));
}

RingOrder RingOrderOf(const JobSpec& spec) {
  const auto& order = spec.experiment().ring_order();
  return order.empty() ? RingOrder(spec.workers())
                       : RingOrder(std::vector<int>(order.begin(), order.end()));
}

const Hosts* HostsOf(const JobSpec& spec) {
  if (spec.arm().cluster().has_hosts()) return &spec.arm().cluster().hosts();
  const Cluster& cluster = spec.experiment().cluster();
  return cluster.has_hosts() ? &cluster.hosts() : nullptr;
}

std::optional<int> PeerOnHost(const JobSpec& spec, int rank) {
  const Hosts* const hosts = HostsOf(spec);
  if (hosts == nullptr || !hosts->colocated_servers()) return std::nullopt;
  return rank < std::min(spec.workers(), spec.servers()) ? std::optional(rank)
                                                         : std::nullopt;
}

Contributors ContributorsOf(const JobSpec& spec) {
  return spec.steps_per_epoch() == 0
             ? Contributors(spec.workers())
             : Contributors(spec.workers(), spec.steps_per_epoch(),
                            spec.last_contributors());
}

void DescribeLayout(const ParameterLayout& layout, JobSpec* spec) {
  for (const Tensor& tensor : layout.tensors()) {
    TensorSpec& described = *spec->add_tensors();
    described.set_name(tensor.name);
    described.mutable_shape()->Assign(tensor.shape.begin(), tensor.shape.end());
  }
}

bool KeepsStep(const JobSpec& spec) {
  return spec.contributions_per_update() == spec.workers();
}

int64_t FirstStepOf(const JobSpec& spec, int rank) {
  return spec.has_restored() ? spec.restored().next_steps(rank) : 0;
}

int64_t ContributionsToMake(const JobSpec& spec) {
  int64_t contributions = spec.workers() * spec.steps();
  for (const int64_t made : spec.restored().next_steps()) contributions -= made;
  return contributions;
}

int64_t MostUpdates(const JobSpec& spec) {
  return spec.contributions_per_update() == spec.workers()
             ? spec.steps()
             : spec.steps() * spec.workers();
}

uint64_t Fingerprint(const JobSpec& spec) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    spec.SerializeToCodedStream(&coded);
  }
  return FingerprintOf(bytes);
}

}  // namespace psring
