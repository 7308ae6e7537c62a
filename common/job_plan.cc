#include "common/job_plan.h"

#include <string>
#include <vector>

#include "common/fingerprint.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace psring {

JobPlan PlanJob(const JobSpec& spec) {
  JobPlan plan;
  for (const TensorSpec& tensor : spec.tensors()) {
    plan.layout.Add(tensor.name(), {tensor.shape().begin(), tensor.shape().end()});
  }
  plan.buckets = PlanBuckets(plan.layout, spec.experiment().buckets().cap_bytes(),
                             spec.experiment().buckets().first_cap_bytes());
  if (spec.servers() > 0) plan.slots = PlanStripedSlots(plan.buckets, spec.servers());
  return plan;
}

RingOrder RingOrderOf(const JobSpec& spec) {
  const auto& order = spec.experiment().ring_order();
  return order.empty() ? RingOrder(spec.workers())
                       : RingOrder(std::vector<int>(order.begin(), order.end()));
}

void DescribeLayout(const ParameterLayout& layout, JobSpec* spec) {
  for (const Tensor& tensor : layout.tensors()) {
    TensorSpec& described = *spec->add_tensors();
    described.set_name(tensor.name);
    described.mutable_shape()->Assign(tensor.shape.begin(), tensor.shape.end());
  }
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
