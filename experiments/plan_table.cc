#include "experiments/plan_table.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/job_plan.h"
#include "common/optimizer.h"
#include "experiments/arm_mode.h"
#include "experiments/config_check.h"
#include "experiments/hosts/host_plan.h"
#include "experiments/hosts/host_settings.h"
#include "experiments/optimizer_config.h"
#include "experiments/planned_buckets.h"
#include "experiments/ring_config.h"
#include "experiments/text.h"
#include "experiments/traffic_formula.h"

namespace psring {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

std::string BucketTable(const JobSpec& spec, const JobPlan& plan) {
  const std::vector<PlannedBucket> planned = PlannedBuckets(spec, plan.buckets);
  std::vector<std::vector<std::string>> rows;
  for (const Bucket& bucket : plan.buckets.buckets) {
    std::vector<std::string> tensors;
    for (int t = bucket.first_tensor; t < bucket.first_tensor + bucket.tensor_count;
         ++t) {
      tensors.push_back(plan.layout.tensors()[t].name);
    }
    const bool many = tensors.size() > 4;
    rows.push_back({absl::StrCat("bucket ", bucket.index),
                    WithThousands(bucket.range.count),
                    WithThousands(planned[bucket.index].bytes)});
    if (const auto algorithm = planned[bucket.index].algorithm) {
      rows.back().push_back(AlgorithmName(*algorithm));
    }
    rows.back().push_back(many ? absl::StrCat(tensors.size(), " tensors, ",
                                              tensors.front(), " to ", tensors.back())
                               : absl::StrJoin(tensors, " "));
  }
  std::vector<std::string> header = {"buckets, in order of launch", "elements", "bytes"};
  if (spec.arm().has_ring()) header.push_back("algorithm");
  header.push_back("tensors");
  return FormatTable(header, rows);
}

std::string SlotTable(const JobPlan& plan) {
  std::vector<std::vector<std::string>> rows;
  for (int server = 0; server < plan.slots.servers; ++server) {
    int64_t count = 0;
    for (const int slot : plan.slots.of_server[server]) {
      count += plan.slots.slots[slot].range.count;
    }
    rows.push_back({absl::StrCat("server ", server),
                    absl::StrCat(plan.slots.of_server[server].size()),
                    WithThousands(count), WithThousands(count * kFloatBytes)});
  }
  return FormatTable({"slots, striped", "slots", "elements", "bytes"}, rows);
}

std::string TrafficRows(const JobSpec& spec, const JobPlan& plan) {
  std::vector<std::vector<std::string>> rows;
  for (const EndpointFormula& endpoint : StepTraffic(spec, plan)) {
    rows.push_back(
        {endpoint.name, WithThousands(endpoint.out), WithThousands(endpoint.in)});
  }
  return FormatTable({"payload bytes per step", "sent", "received"}, rows);
}

std::string HostRows(const JobSpec& spec, const JobPlan& plan) {
  const HostPlan hosts = PlanHosts(spec);
  std::vector<std::vector<std::string>> rows;
  for (const EndpointFormula& endpoint : StepTraffic(spec, plan)) {
    const PlannedHost& host = hosts.hosts[hosts.HostOf(endpoint.name)];
    const auto mbit = [](int64_t bit_s) {
      return absl::StrFormat("%.6g", static_cast<double>(bit_s) / 1e6);
    };
    const auto ms = [](int64_t bytes, int64_t bit_s) {
      return absl::StrFormat(
          "%.3f", static_cast<double>(bytes) * 8e3 / static_cast<double>(bit_s));
    };
    rows.push_back({host.name, absl::StrCat(host.rack), mbit(host.send_bit_s),
                    mbit(host.receive_bit_s), ms(endpoint.out, host.send_bit_s),
                    ms(endpoint.in, host.receive_bit_s)});
  }
  const Hosts settings = ResolveCluster(spec.experiment(), spec.arm()).hosts();
  return absl::StrCat("hosts: ", DescribeHosts(settings), "\n",
                      FormatTable({"host", "rack", "sends Mbit/s", "receives Mbit/s",
                                   "payload at line rate: ms/step out", "ms/step in"},
                                  rows));
}

// Bytes that psring itself holds for tensors and data; libraries and messages in flight
// come on top.
std::string MemoryRows(const JobSpec& spec, const JobPlan& plan,
                       const DataSetShape& data) {
  const Training& training = spec.experiment().training();
  // Of a part of the model that is so many bytes.
  const auto state = [&](int64_t bytes) {
    return bytes / kFloatBytes * OptimizerStateBytesPerElement(training.optimizer());
  };
  const int64_t model = plan.layout.bytes();
  const int64_t samples =
      (data.train_count + data.test_count) * (data.features + 1);  // Bytes and labels.
  int64_t activations = data.features;
  int64_t widest = 0;
  for (const Tensor& tensor : plan.layout.tensors()) {
    if (tensor.shape.size() != 1) continue;
    activations += tensor.shape[0];
    widest = std::max(widest, tensor.shape[0]);
  }
  activations += 2 * widest;
  activations *= training.global_batch() / spec.workers() * kFloatBytes;
  const int64_t interval = training.evaluation_interval();
  const int64_t snapshots = interval == 0 ? 1 : (spec.steps() + interval - 1) / interval;
  // A server's copies of the versions that workers have read, for each the parameters.
  const std::optional<ConsistencyPromise> promise = PromiseOf(spec);
  const int64_t older = promise ? promise->older_versions : 0;
  int64_t versions = older;
  if (spec.arm().parameter_server().stale_updates().delay_compensation() != 0) {
    versions += spec.workers();
  }

  std::vector<std::vector<std::string>> rows;
  const auto row = [&](const std::string& name, std::vector<int64_t> parts) {
    rows.push_back({name});
    int64_t sum = 0;
    for (const int64_t part : parts) {
      rows.back().push_back(WithThousands(part));
      sum += part;
    }
    rows.back().push_back(WithThousands(sum));
  };
  for (int rank = 0; rank < spec.workers(); ++rank) {
    const bool steps_here = spec.servers() == 0;
    row(absl::StrCat("worker ", rank),
        {model, model, steps_here ? state(model) : 0, 0, 0, activations, samples,
         rank == 0 ? (steps_here ? snapshots : 1) * model : 0});
  }
  for (int server = 0; server < spec.servers(); ++server) {
    const int64_t share = ServerStepBytes(plan.slots, server, /*workers=*/1);
    // One of each worker, and those that wait for their turn.
    const int64_t contributions = spec.workers() + older;
    row(absl::StrCat("server ", server), {share, 0, state(share), share * contributions,
                                          share * versions, 0, 0, share * snapshots});
  }
  return FormatTable(
      {"memory, bytes", "parameters", "gradients", "optimizer", "contributions",
       "older versions", "activations", "data set", "snapshots", "sum"},
      rows);
}

}  // namespace

std::string PlanTable(const JobSpec& spec, const DataSetShape& data) {
  const JobPlan plan = PlanJob(spec);
  std::string text =
      absl::StrCat("arm ", spec.arm().name(), ": ", spec.workers(), " workers, ",
                   spec.servers(), " servers, ", WithThousands(spec.steps()), " steps, ",
                   WithThousands(plan.layout.count()), " parameters (",
                   WithThousands(plan.layout.bytes()), " bytes)\nmode: ", ModeOf(spec),
                   "; ", DescribeOptimizer(spec.experiment().training().optimizer()),
                   "\n\n", BucketTable(spec, plan), "\n");
  if (spec.servers() > 0) absl::StrAppend(&text, SlotTable(plan), "\n");
  absl::StrAppend(&text, TrafficRows(spec, plan), "\n");
  if (OnHosts(spec)) absl::StrAppend(&text, HostRows(spec, plan), "\n");
  absl::StrAppend(&text, MemoryRows(spec, plan, data));
  return text;
}

}  // namespace psring
