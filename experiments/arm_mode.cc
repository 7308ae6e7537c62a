#include "experiments/arm_mode.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/wire_type.h"
#include "experiments/config_text.h"
#include "experiments/ring_config.h"
#include "glog/logging.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/text_format.h"
#include "server/policies.h"

namespace psring {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

std::string ValueOf(const Message& message, const FieldDescriptor& field) {
  std::string value;
  TextFormat::PrintFieldValueToString(message, &field, /*index=*/-1, &value);
  return value;
}

// "bounded(4)": the name of the member that is set, and its settings, also those that are
// 0. A new mode needs no words here.
std::string ConsistencyOf(const ParameterServerMode& mode) {
  if (mode.consistency_case() == ParameterServerMode::CONSISTENCY_NOT_SET ||
      mode.has_sync()) {
    return mode.sync().order() == Sync::RING ? "sync, ring order" : "sync, rank order";
  }
  const FieldDescriptor& member =
      *ParameterServerMode::descriptor()->FindFieldByNumber(mode.consistency_case());
  const Message& settings = mode.GetReflection()->GetMessage(mode, &member);
  std::vector<std::string> values;
  for (int i = 0; i < settings.GetDescriptor()->field_count(); ++i) {
    values.push_back(ValueOf(settings, *settings.GetDescriptor()->field(i)));
  }
  return values.empty()
             ? member.name()
             : absl::StrCat(member.name(), "(", absl::StrJoin(values, ", "), ")");
}

// ", scale ONE, drop above 8"
std::string SettingsOf(const StaleUpdates& stale) {
  std::vector<const FieldDescriptor*> fields;
  stale.GetReflection()->ListFields(stale, &fields);
  std::string text;
  for (const FieldDescriptor* field : fields) {
    absl::StrAppend(&text, ", ", absl::StrReplaceAll(field->name(), {{"_", " "}}), " ",
                    ValueOf(stale, *field));
  }
  return text;
}

// ", placed BY_TENSOR_SIZE"; striped, which is usual, goes without saying.
std::string PlacementOf(const ParameterServerMode& mode) {
  if (mode.placement() == ParameterServerMode::STRIPED) return "";
  return absl::StrCat(", placed ", ParameterServerMode::Placement_Name(mode.placement()));
}

std::string WireOf(const JobSpec& spec) {
  const WireType wire = spec.arm().wire();
  return wire.is_fp32() ? "" : absl::StrCat(", gradients as ", wire.name());
}

std::string Count(int number, const char* what) {
  return absl::StrCat(number, " ", what, number == 1 ? "" : "s");
}

}  // namespace

std::string ModeOf(const JobSpec& spec) {
  switch (spec.arm().mode_case()) {
    case Arm::kParameterServer: {
      const ParameterServerMode& mode = spec.arm().parameter_server();
      return absl::StrCat("parameter server, ", ConsistencyOf(mode),
                          SettingsOf(mode.stale_updates()), PlacementOf(mode),
                          WireOf(spec));
    }
    case Arm::kRing:
      return absl::StrCat(DescribeRing(spec.arm().ring()), WireOf(spec));
    case Arm::kLocal:
      return "local";
    case Arm::MODE_NOT_SET:
      break;
  }
  return "none";
}

std::optional<ConsistencyPromise> PromiseOf(const JobSpec& spec) {
  if (!spec.arm().has_parameter_server()) return std::nullopt;
  const auto policy = MakePolicy(spec.arm().parameter_server(), spec.workers());
  CHECK(policy.ok()) << policy.status();  // The arm has been checked.
  return (*policy)->promise();
}

bool InLockstep(const JobSpec& spec) {
  const std::optional<ConsistencyPromise> promise = PromiseOf(spec);
  return !promise || promise->lockstep;
}

std::string DescribeArms(const std::vector<JobSpec>& arms) {
  using Describe = std::string (*)(const JobSpec&);
  const auto differs = [&](Describe describe) {
    return std::any_of(arms.begin(), arms.end(), [&](const JobSpec& spec) {
      return describe(spec) != describe(arms.front());
    });
  };
  const Describe optimizer = [](const JobSpec& spec) {
    return OnOneLine(spec.experiment().training().optimizer());
  };
  const Describe buckets = [](const JobSpec& spec) {
    return absl::StrCat("buckets { ", OnOneLine(spec.experiment().buckets()), " }");
  };
  const bool several_optimizers = differs(optimizer);
  const bool several_buckets = differs(buckets);
  std::string text;
  for (const JobSpec& spec : arms) {
    absl::StrAppend(&text, "arm ", spec.arm().name(), ": ", ModeOf(spec), "; ",
                    Count(spec.workers(), "worker"));
    if (spec.servers() > 0) absl::StrAppend(&text, ", ", Count(spec.servers(), "server"));
    if (several_optimizers) absl::StrAppend(&text, "; ", optimizer(spec));
    if (several_buckets) absl::StrAppend(&text, "; ", buckets(spec));
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace psring
