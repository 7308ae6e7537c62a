#include "experiments/plan_table.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/job_plan.h"
#include "common/slot_plan.h"
#include "experiments/arm_mode.h"
#include "experiments/compute_config.h"
#include "experiments/device_config.h"
#include "experiments/hosts/host_plan.h"
#include "experiments/hosts/host_settings.h"
#include "experiments/memory_budget.h"
#include "experiments/optimizer_config.h"
#include "experiments/planned_buckets.h"
#include "experiments/ring_config.h"
#include "experiments/step_config.h"
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
  std::vector<std::string> header = {spec.experiment().buckets().overlap()
                                         ? "buckets, in order of launch"
                                         : "buckets, launched after backward",
                                     "elements", "bytes"};
  if (spec.arm().has_ring()) header.push_back("algorithm");
  header.push_back("tensors");
  return FormatTable(header, rows);
}

std::string SlotTable(const JobSpec& spec, const JobPlan& plan) {
  std::vector<std::vector<std::string>> rows;
  for (int server = 0; server < plan.slots.servers; ++server) {
    const int64_t count = ServerElements(plan.slots, server);
    rows.push_back({absl::StrCat("server ", server),
                    absl::StrCat(plan.slots.of_server[server].size()),
                    WithThousands(count), WithThousands(count * kFloatBytes)});
  }
  const std::string placement = absl::StrReplaceAll(
      absl::AsciiStrToLower(
          ParameterServerMode::Placement_Name(spec.arm().parameter_server().placement())),
      {{"_", " "}});
  return absl::StrCat(
      FormatTable({absl::StrCat("slots, ", placement), "slots", "elements", "bytes"},
                  rows),
      absl::StrFormat("  imbalance: %.3f (most bytes of a server / mean)\n",
                      ServerImbalance(plan.slots)));
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
  struct Payload {
    int64_t out = 0;
    int64_t in = 0;
  };
  std::vector<Payload> payload(hosts.hosts.size());
  for (const EndpointFormula& endpoint : StepTraffic(spec, plan)) {
    Payload& of_host = payload[hosts.HostOf(endpoint.name)];
    of_host.out += endpoint.out - endpoint.local_out;
    of_host.in += endpoint.in - endpoint.local_in;
  }
  for (size_t i = 0; i < hosts.hosts.size(); ++i) {
    const PlannedHost& host = hosts.hosts[i];
    const auto mbit = [](int64_t bit_s) {
      return absl::StrFormat("%.6g", static_cast<double>(bit_s) / 1e6);
    };
    const auto ms = [](int64_t bytes, int64_t bit_s) {
      return absl::StrFormat(
          "%.3f", static_cast<double>(bytes) * 8e3 / static_cast<double>(bit_s));
    };
    rows.push_back({absl::StrJoin(host.processes, " + "), absl::StrCat(host.rack),
                    mbit(host.send_bit_s), mbit(host.receive_bit_s),
                    WithThousands(payload[i].out), WithThousands(payload[i].in),
                    ms(payload[i].out, host.send_bit_s),
                    ms(payload[i].in, host.receive_bit_s)});
  }
  return absl::StrCat(
      "hosts: ", DescribeHosts(*HostsOf(spec)), "\n",
      FormatTable({"payload over hosts' links", "rack", "sends Mbit/s", "receives Mbit/s",
                   "bytes/step out", "in", "at line rate: ms/step out", "in"},
                  rows));
}

// The budget, a column for each purpose that any process has, and what else psring itself
// holds for tensors and data. Libraries come on top, and what they keep of messages.
std::string MemoryRows(const JobSpec& spec, const JobPlan& plan,
                       const DataSetShape& data) {
  const Training& training = spec.experiment().training();
  // Emulated compute looks at no data, has no activations, and nothing is evaluated.
  const bool emulated = spec.experiment().compute().has_emulated();
  const int64_t samples =  // Bytes and labels.
      emulated ? 0 : (data.train_count + data.test_count) * (data.features + 1);
  int64_t activations = data.features;
  int64_t widest = 0;
  for (const Tensor& tensor : plan.layout.tensors()) {
    if (tensor.shape.size() != 1) continue;
    // Only one branch is computed.
    if (absl::StrContains(tensor.name, ".branch") &&
        !absl::StrContains(tensor.name, ".branch0.")) {
      continue;
    }
    activations += tensor.shape[0];
    widest = std::max(widest, tensor.shape[0]);
  }
  activations += 2 * widest;
  const int64_t passes = std::max<int64_t>(1, training.micro_batches());
  activations *=
      emulated ? 0 : training.global_batch() / spec.workers() / passes * kFloatBytes;
  // Of worker 0, which evaluates: those that servers keep come one after the other.
  const int64_t snapshots =
      emulated ? 0
               : (spec.servers() == 0 ? SnapshotCount(spec) : 1) * plan.layout.bytes();

  const std::vector<ProcessBudget> budgets = MemoryBudget(spec, plan);
  std::vector<std::string> header = {"memory, bytes"};
  std::vector<std::string> purposes;
  for (const ProcessBudget& budget : budgets) {
    for (const PurposeBudget& of : budget.purposes) {
      if (std::find(purposes.begin(), purposes.end(), of.purpose) != purposes.end()) {
        continue;
      }
      purposes.push_back(of.purpose);
      header.push_back(absl::StrCat(of.purpose, of.exact ? "" : ", at most"));
    }
  }
  header.insert(header.end(), {"activations", "data set", "snapshots", "sum"});

  std::vector<std::vector<std::string>> rows;
  for (const ProcessBudget& budget : budgets) {
    std::vector<int64_t> parts(purposes.size(), 0);
    for (const PurposeBudget& of : budget.purposes) {
      parts[std::find(purposes.begin(), purposes.end(), of.purpose) - purposes.begin()] =
          of.bytes;
    }
    const bool works = budget.role == "worker";
    parts.insert(parts.end(), {works ? activations : 0, works ? samples : 0,
                               rows.empty() ? snapshots : 0});  // Worker 0 is first.
    parts.push_back(std::accumulate(parts.begin(), parts.end(), int64_t{0}));
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(budget.name);
    for (const int64_t part : parts) row.push_back(WithThousands(part));
  }
  return FormatTable(header, rows);
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
                   "\ncompute: ", DescribeCompute(spec.experiment().compute()),
                   "\nreduce: ", DescribeReduction(spec), "\n");
  const std::string uneven = DescribeUneven(spec, data.train_count);
  if (!uneven.empty()) absl::StrAppend(&text, "uneven: ", uneven, "\n");
  if (spec.experiment().device() != Experiment::CPU) {
    absl::StrAppend(&text, "device: ", DescribeDevice(spec.experiment()), "\n");
  }
  absl::StrAppend(&text, "\n", BucketTable(spec, plan), "\n");
  if (spec.servers() > 0) absl::StrAppend(&text, SlotTable(spec, plan), "\n");
  absl::StrAppend(&text, TrafficRows(spec, plan), "\n");
  if (OnHosts(spec)) absl::StrAppend(&text, HostRows(spec, plan), "\n");
  absl::StrAppend(&text, MemoryRows(spec, plan, data));
  return text;
}

}  // namespace psring
